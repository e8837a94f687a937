//! Which proxy a URL is asked through: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, by the rules of Go's net/http. Pure but
//! for [`Proxies::from_environment`].
//!
//! Invariants: this machine is never asked through a proxy; a proxy's password is never printed; a proxy that cannot be
//! used is an error, not a way around it.

use std::net::IpAddr;

use crate::text::url::{Scheme, Url};

/// The proxies of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Proxies {
    http: Option<Setting>,
    https: Option<Setting>,
    exceptions: Vec<Exception>,
}

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    variable: &'static str,
    proxy: Result<Url, BadProxy>,
}

/// Why a value names no proxy. The value itself may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum BadProxy {
    #[error("not a URL")]
    Malformed,
    #[error("not a proxy that http:// or https:// leads to")]
    Scheme,
}

/// A variable that names no proxy that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} in the environment is {reason}")]
pub(crate) struct ProxyError {
    variable: &'static str,
    reason: BadProxy,
}

/// An entry of `NO_PROXY`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Exception {
    Everything,
    Address { address: IpAddr, port: Option<String> },
    Network { address: IpAddr, prefix: u8 },
    Domain { suffix: String, and_itself: bool, port: Option<String> },
}

impl Proxies {
    /// Those of this process: the upper-case names count before the lower-case ones, and empty values do not count.
    pub(crate) fn from_environment() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// Those that these variables name.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            let found = names.into_iter().filter_map(|name| Some((name, variable(name)?)));
            found.into_iter().find(|(_, value)| !value.is_empty())
        };
        let setting = |names| {
            let (variable, value) = first(names)?;
            Some(Setting { variable, proxy: parse_proxy(&value) })
        };
        let exceptions = first(["NO_PROXY", "no_proxy"]).map(|(_, value)| value).unwrap_or_default();
        Self {
            http: setting(["HTTP_PROXY", "http_proxy"]),
            https: setting(["HTTPS_PROXY", "https_proxy"]),
            exceptions: exceptions.split(',').filter_map(parse_exception).collect(),
        }
    }

    /// The proxy for a URL; none where it is asked directly.
    ///
    /// # Errors
    /// When the environment names one that cannot be used.
    pub(crate) fn choose(&self, url: &Url) -> Result<Option<&Url>, ProxyError> {
        let setting = match url.scheme {
            Scheme::Http => &self.http,
            Scheme::Https => &self.https,
        };
        let Some(Setting { variable, proxy }) = setting else { return Ok(None) };
        if url.is_loopback() || self.exceptions.iter().any(|exception| exception.covers(url)) {
            return Ok(None);
        }
        match proxy {
            Ok(proxy) => Ok(Some(proxy)),
            Err(reason) => Err(ProxyError { variable, reason: *reason }),
        }
    }
}

/// A URL, or a host and port that stand for one of http.
fn parse_proxy(value: &str) -> Result<Url, BadProxy> {
    let whole = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
    whole.parse().map_err(|error| match error {
        crate::text::url::UrlError::Scheme => BadProxy::Scheme,
        _ => BadProxy::Malformed,
    })
}

/// None for an entry that means nothing, as Go has it.
fn parse_exception(entry: &str) -> Option<Exception> {
    let entry = entry.trim().to_ascii_lowercase();
    if entry == "*" {
        return Some(Exception::Everything);
    }
    if let Some((address, prefix)) = entry.split_once('/')
        && let (Ok(address), Ok(prefix)) = (address.parse::<IpAddr>(), prefix.parse::<u8>())
        && prefix <= bits(address)
    {
        return Some(Exception::Network { address, prefix });
    }
    let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let (host, port) = match entry.rsplit_once(':') {
        // An address of IPv6 has a port only behind its bracket.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (bare(host), Some(port.to_owned()))
        }
        _ => (bare(&entry), None),
    };
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Exception::Address { address, port });
    }
    let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(&host);
    match host.strip_prefix('.') {
        _ if host.is_empty() => None,
        Some(_) => Some(Exception::Domain { suffix: host.to_owned(), and_itself: false, port }),
        None => Some(Exception::Domain { suffix: format!(".{host}"), and_itself: true, port }),
    }
}

impl Exception {
    fn covers(&self, url: &Url) -> bool {
        let address = url.host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let is_port = |port: &Option<String>| port.as_ref().is_none_or(|port| *port == url.port.to_string());
        match self {
            Exception::Everything => true,
            Exception::Address { address: own, port } => address == Some(own.to_canonical()) && is_port(port),
            Exception::Network { address: network, prefix } => {
                address.is_some_and(|address| same_network(*network, address, *prefix))
            }
            Exception::Domain { suffix, and_itself, port } => {
                let is_it = *and_itself && suffix.strip_prefix('.') == Some(url.host.as_str());
                (is_it || url.host.ends_with(suffix.as_str())) && is_port(port)
            }
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The first `prefix` bits of both, of one family, are the same.
fn same_network(network: IpAddr, address: IpAddr, prefix: u8) -> bool {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    let rest = u32::from(bits(network).saturating_sub(prefix));
    let differ = (number(network) ^ number(address)).checked_shr(rest).unwrap_or_default();
    network.is_ipv4() == address.is_ipv4() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `NAME=VALUE` for each variable.
    fn proxies(variables: &[&str]) -> Proxies {
        Proxies::of(|name| {
            let mut pairs = variables.iter().filter_map(|pair| pair.split_once('='));
            pairs.find(|(own, _)| *own == name).map(|(_, value)| value.to_owned())
        })
    }

    fn chosen(variables: &[&str], url: &str) -> String {
        match proxies(variables).choose(&url.parse().unwrap()) {
            Ok(None) => "direct".to_owned(),
            Ok(Some(proxy)) => proxy.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_variable_of_the_scheme_counts() {
        let both = ["HTTP_PROXY=http://p:1", "HTTPS_PROXY=https://q:2/x"];
        let cases: &[(&[&str], &str, &str)] = &[
            (&[], "https://h/", "direct"),
            (&both, "http://h/", "http://p:1/"),
            (&both, "https://h/", "https://q:2/x"),
            (&["HTTPS_PROXY=http://p:1"], "http://h/", "direct"),
            (&["http_proxy=p:3128"], "http://h/", "http://p:3128/"),
            (&["HTTP_PROXY=", "http_proxy=p"], "http://h/", "http://p/"),
            (&["HTTP_PROXY=up", "http_proxy=low"], "http://h/", "http://up/"),
            (&["HTTPS_PROXY=user:pass@p:1"], "https://h/", "http://p:1/"),
            (&both, "http://localhost:80/", "direct"),
            (&both, "https://127.0.0.9/", "direct"),
            (&both, "https://[::1]:8443/", "direct"),
            (
                &["HTTPS_PROXY=socks5://user:pass@p:1"],
                "https://h/",
                "HTTPS_PROXY in the environment is not a proxy that http:// or https:// leads to",
            ),
            (
                &["https_proxy=http://user:pass@p:x/"],
                "https://h/",
                "https_proxy in the environment is not a URL",
            ),
            (&["HTTPS_PROXY=ftp://p", "NO_PROXY=h"], "https://h/", "direct"),
        ];
        for (variables, url, expect) in cases {
            assert_eq!(chosen(variables, url), *expect, "{variables:?} {url}");
        }
    }

    /// As in Go's own table (golang.org/x/net/http/httpproxy).
    #[test]
    fn exceptions() {
        let cases = [
            ("", "h.example", true),
            ("*", "h.example", false),
            ("other, *", "h.example", false),
            ("h.example", "h.example", false),
            ("H.Example ", "h.example", false),
            ("h.example", "a.h.example", false),
            (".h.example", "a.h.example", false),
            (".h.example", "h.example", true),
            ("*.h.example", "a.h.example", false),
            ("*.h.example", "h.example", true),
            ("h.example", "oh.example", true),
            ("h.example", "ah.example", true),
            ("*h.example", "ah.example", true),
            ("h.example:443", "h.example", false),
            ("h.example:8443", "h.example", true),
            ("h.example:8443", "h.example:8443", false),
            (":443", "h.example", true),
            ("h.example:80,,  ,a.b", "c.a.b", false),
            ("192.0.2.1", "192.0.2.1", false),
            ("192.0.2.1", "192.0.2.10", true),
            ("192.0.2.1:443", "192.0.2.1", false),
            ("192.0.2.1:80", "192.0.2.1", true),
            ("192.0.2.0/24", "192.0.2.77", false),
            ("192.0.2.0/24", "192.0.3.77", true),
            ("192.0.2.9/24", "192.0.2.77", false),
            ("0.0.0.0/0", "192.0.2.77", false),
            ("192.0.2.0/33", "192.0.2.77", true),
            ("192.0.2.0/24", "h.example", true),
            ("2001:db8::1", "[2001:db8::1]", false),
            ("[2001:db8::1]", "[2001:db8::1]", false),
            ("[2001:db8::1]:443", "[2001:db8::1]", false),
            ("[2001:db8::1]:80", "[2001:db8::1]", true),
            ("2001:db8::/32", "[2001:db8::7]", false),
            ("2001:db8::/32", "192.0.2.1", true),
            ("0.2.1", "192.0.2.1", false),
        ];
        for (no_proxy, host, proxied) in cases {
            let variables = ["HTTPS_PROXY=http://p:1", &format!("NO_PROXY={no_proxy}")];
            let expect = if proxied { "http://p:1/" } else { "direct" };
            assert_eq!(chosen(&variables, &format!("https://{host}/")), expect, "{no_proxy:?} {host}");
        }
        assert_eq!(chosen(&["HTTPS_PROXY=p", "no_proxy=h"], "https://h/"), "direct");
    }

    #[test]
    fn no_password_is_printed() {
        let text =
            format!("{:?}", proxies(&["HTTPS_PROXY=http://user:hush@p:1", "HTTP_PROXY=ftp://user:hush@p"]));
        assert!(!text.contains("hush"), "{text}");
    }
}
