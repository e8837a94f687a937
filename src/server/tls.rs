//! The TLS of the port with authentication: the certificate, the authorities of clients, versions and cipher suites.
//!
//! Owns the settings and what is made of them. Files are looked at when a client connects, and read anew when they have
//! changed; while what they hold is not usable, what they held before is used on. Must not: decide who may ask.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::crypto::ring as provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::certificate::{signed, to_be_signed};
use crate::text::chain;

/// Where the certificate comes from, and what is asked of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    /// `tlsCertFile` and `tlsPrivateKeyFile`; none for a certificate of our own.
    pub files: Option<(PathBuf, PathBuf)>,
    /// Where one of our own is kept (`--cert-dir`).
    pub cert_dir: PathBuf,
    /// The node's name, which one of our own is for.
    pub host: String,
    /// The node's addresses, for the same.
    pub ips: Vec<IpAddr>,
    /// Nothing below TLS 1.3 (`tlsMinVersion`).
    pub only_tls13: bool,
    /// The cipher suites of TLS 1.2 (`tlsCipherSuites`); empty for all.
    pub cipher_suites: Vec<String>,
    /// The authorities of client certificates (`authentication.x509.clientCAFile`).
    pub client_ca: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerTlsError {
    /// A file that cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No PEM, or not what it should hold.
    #[error("{} does not hold what it should", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// No certificate in it.
    #[error("there is no certificate in {}", .0.display())]
    Empty(PathBuf),
    /// None of the cipher suites is known.
    #[error("none of tlsCipherSuites is supported")]
    CipherSuites,
    /// The authorities cannot be used.
    #[error("cannot use the authorities of clients")]
    ClientCa(#[from] VerifierBuilderError),
    /// The certificate and the key do not fit, or the like.
    #[error("cannot use the certificate")]
    Certificate(#[from] rustls::Error),
    /// No key of our own.
    #[error("cannot make a key")]
    Key,
}

/// The TLS of a port.
pub(crate) struct ServerTls {
    settings: TlsSettings,
    /// Held while files are read or made: two that are made at once would not fit each other.
    loading: Mutex<()>,
    loaded: Mutex<Option<LoadedTls>>,
}

#[derive(Clone)]
struct LoadedTls {
    files: Vec<Option<Stamp>>,
    config: Arc<ServerConfig>,
}

/// A file as it was when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, i64, i64, u64);

impl ServerTls {
    /// Loads it for the first time. Blocking.
    ///
    /// # Errors
    /// When it cannot be used as it is.
    pub(crate) fn new(settings: TlsSettings) -> Result<Self, ServerTlsError> {
        let own = Self { settings, loading: Mutex::default(), loaded: Mutex::default() };
        own.load()?;
        Ok(own)
    }

    /// What a client that connects now gets.
    ///
    /// # Errors
    /// When nothing was ever usable.
    pub(crate) async fn current(self: &Arc<Self>) -> Result<Arc<ServerConfig>, ServerTlsError> {
        let own = self.clone();
        smol::unblock(move || own.load()).await
    }

    fn load(&self) -> Result<Arc<ServerConfig>, ServerTlsError> {
        let _alone = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let (certificate, key) = self.paths();
        if self.settings.files.is_none() && !(certificate.exists() && key.exists()) {
            make_own(&self.settings, &certificate, &key)?;
        }
        let files: Vec<_> = [Some(&certificate), Some(&key), self.settings.client_ca.as_ref()]
            .map(|path| path.and_then(stamp))
            .into();
        let before = self.loaded().clone();
        if let Some(before) = before.as_ref().filter(|before| before.files == files) {
            return Ok(before.config.clone());
        }
        match (config(&self.settings, &certificate, &key), before) {
            (Ok(config), before) => {
                let config = Arc::new(config);
                if before.is_some() {
                    tracing::info!(certificate = %certificate.display(), "the certificate has changed");
                }
                *self.loaded() = Some(LoadedTls { files, config: config.clone() });
                Ok(config)
            }
            (Err(error), Some(before)) => {
                tracing::warn!(
                    error = chain(&error),
                    "the certificate has changed, and the old one is used on"
                );
                *self.loaded() = Some(LoadedTls { files, config: before.config.clone() });
                Ok(before.config)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn loaded(&self) -> std::sync::MutexGuard<'_, Option<LoadedTls>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Certificate and key.
    fn paths(&self) -> (PathBuf, PathBuf) {
        let own = || (self.settings.cert_dir.join("kubelet.crt"), self.settings.cert_dir.join("kubelet.key"));
        self.settings.files.clone().unwrap_or_else(own)
    }
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some(Stamp(found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
}

fn config(settings: &TlsSettings, certificate: &Path, key: &Path) -> Result<ServerConfig, ServerTlsError> {
    let in_file = |path: &Path| {
        let path = path.to_owned();
        move |source| ServerTlsError::Pem { path, source }
    };
    let mut crypto = provider::default_provider();
    if !settings.cipher_suites.is_empty() {
        // Those of TLS 1.3 are no choice, as in Go. Go has two names for some.
        crypto.cipher_suites.retain(|suite| {
            let name = format!("{:?}", suite.suite());
            let is_named = |wanted: &String| name == *wanted || name == format!("{wanted}_SHA256");
            name.starts_with("TLS13_") || settings.cipher_suites.iter().any(is_named)
        });
        let is_tls12 = |suite: &rustls::SupportedCipherSuite| suite.tls13().is_none();
        if !settings.only_tls13 && !crypto.cipher_suites.iter().any(is_tls12) {
            return Err(ServerTlsError::CipherSuites);
        }
    }
    let all: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];
    let versions = if settings.only_tls13 { &all[..1] } else { all };
    let crypto = Arc::new(crypto);
    let builder = ServerConfig::builder_with_provider(crypto.clone()).with_protocol_versions(versions)?;
    let builder = match &settings.client_ca {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), crypto);
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
        }
        None => builder.with_no_client_auth(),
    };
    let key = PrivateKeyDer::from_pem_file(key).map_err(in_file(key))?;
    let mut config = builder.with_single_cert(certificates(certificate)?, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerTlsError> {
    let failed = |source| ServerTlsError::Pem { path: path.to_owned(), source };
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    if found.is_empty() { Err(ServerTlsError::Empty(path.to_owned())) } else { Ok(found) }
}

/// Makes a certificate of our own, and keeps it.
fn make_own(settings: &TlsSettings, certificate: &Path, key: &Path) -> Result<(), ServerTlsError> {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
        .map_err(|_| ServerTlsError::Key)?;
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random)
        .map_err(|_| ServerTlsError::Key)?;
    let mut serial = [0; 8];
    random.fill(&mut serial).map_err(|_| ServerTlsError::Key)?;
    // As kubelet calls its own, with the time that it was made at.
    let name = format!("{}@{}", settings.host, jiff::Timestamp::now().as_second());
    let signed_part = to_be_signed(&name, &settings.host, &settings.ips, serial, pair.public_key().as_ref());
    let signature = pair.sign(&random, &signed_part).map_err(|_| ServerTlsError::Key)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ServerTlsError::File { path, source }
    };
    let directory = &settings.cert_dir;
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed(directory))?;
    // A kill from here on leaves no certificate, so that both are made anew; never one with another's key.
    let _ = fs::remove_file(certificate);
    write_pem(key, "PRIVATE KEY", pkcs8.as_ref(), 0o600).map_err(failed(key))?;
    let whole = signed(&signed_part, signature.as_ref());
    write_pem(certificate, "CERTIFICATE", &whole, 0o644).map_err(failed(certificate))?;
    tracing::info!(certificate = %certificate.display(), "made a certificate that signs itself");
    Ok(())
}

/// Written under another name, so that a kill leaves nothing half.
fn write_pem(path: &Path, label: &str, der: &[u8], mode: u32) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let _ = fs::remove_file(&unfinished);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
    let encoded = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in encoded.as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests;
