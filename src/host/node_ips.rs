//! The addresses of the node, as pods are told them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Addresses of documentation: no packet is sent there.
const FAR_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
const FAR_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
/// The port that discards.
const DISCARD: u16 = 9;

/// Where the node's addresses come from.
#[derive(Debug, Clone)]
pub(crate) struct NodeIps {
    given: Vec<IpAddr>,
}

impl NodeIps {
    /// From `--node-ip`. Without one, and in place of `0.0.0.0` or `::`, it is the address of the default route.
    pub(crate) fn new(given: Vec<IpAddr>) -> Self {
        Self { given: if given.is_empty() { vec![Ipv4Addr::UNSPECIFIED.into()] } else { given } }
    }

    /// The addresses; empty while the node has none. Looked up each time, for a machine may get its address long after
    /// the agent has begun, and another one later.
    pub(crate) fn get(&self) -> Vec<String> {
        let found = self.given.iter().filter_map(|ip| match ip {
            IpAddr::V4(ip) if ip.is_unspecified() => {
                source_address(FAR_V4).or_else(|| source_address(FAR_V6))
            }
            IpAddr::V6(ip) if ip.is_unspecified() => {
                source_address(FAR_V6).or_else(|| source_address(FAR_V4))
            }
            ip => Some(*ip),
        });
        found.map(|ip| ip.to_string()).collect()
    }
}

/// The address that the kernel would speak from to `target`. To connect a datagram socket only looks up the route.
fn source_address(target: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((target, DISCARD)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    Some(address).filter(|address| !address.is_unspecified() && !address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_addresses_are_used_as_they_are_and_others_looked_up() {
        let given = vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        assert_eq!(NodeIps::new(given).get(), ["192.0.2.7", "2001:db8::7"]);
        // Whatever this machine has, it is neither nothing's address nor its own alone.
        let found = [vec![], vec!["::".parse().unwrap()]].map(|given| NodeIps::new(given).get());
        for ip in found.iter().flatten().map(|ip| ip.parse::<IpAddr>().unwrap()) {
            assert!(!ip.is_unspecified() && !ip.is_loopback(), "{ip}");
        }
    }
}
