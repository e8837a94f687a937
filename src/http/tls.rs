//! TLS settings: which server certificates are accepted, and which client certificate is sent.
//!
//! Owns the choice ([`Tls`], plain data) and the settings made from it. Files are read at every use and parsed when their
//! contents changed, so that a renewed certificate counts at once. The system's roots are read once, and anew after
//! a failed handshake.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest as _, Sha256};

/// What is required of both sides of a TLS connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tls {
    /// The server's certificate is verified.
    Verified {
        /// The authorities that may have signed it.
        roots: Roots,
        /// The client certificate.
        identity: Option<Identity>,
    },
    /// Any server certificate is accepted.
    Unverified,
}

/// The certificate authorities that are trusted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Roots {
    /// Those of the system.
    System,
    /// The certificates of this file alone.
    File(PathBuf),
}

/// A client certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    /// The file of the certificate, with those between it and the root after it.
    pub certificate: PathBuf,
    /// The file of the key.
    pub key: PathBuf,
}

/// Why no TLS connection can be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file that cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that is not PEM, or holds nothing of the kind that is needed.
    #[error("{} holds no usable {what}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is needed.
        what: &'static str,
        /// What the parser said.
        source: pem::Error,
    },
    /// A certificate that is no usable authority.
    #[error("{} holds a certificate that cannot be used", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// Certificate and key do not belong together, or are of a kind that is not supported.
    #[error("{} and {} do not make an identity", certificate.display(), key.display())]
    Identity {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The system trusts nobody.
    #[error("the system has no root certificates; name some, or install ca-certificates")]
    NoRoots,
    /// The library refuses its own settings.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

impl Tls {
    /// The same without the client certificate, for a server that it is not meant for.
    pub(crate) fn without_identity(&self) -> Self {
        match self {
            Tls::Verified { roots, .. } => Tls::Verified { roots: roots.clone(), identity: None },
            Tls::Unverified => Tls::Unverified,
        }
    }

    fn files(&self) -> Vec<&Path> {
        let Tls::Verified { roots, identity } = self else { return Vec::new() };
        let mut files = Vec::new();
        if let Roots::File(path) = roots {
            files.push(path.as_path());
        }
        if let Some(identity) = identity {
            files.extend([identity.certificate.as_path(), identity.key.as_path()]);
        }
        files
    }
}

/// The settings made from each choice, reused until one of its files changes.
#[derive(Debug, Default)]
pub(super) struct Configs(Mutex<BTreeMap<Tls, MadeConfig>>);

#[derive(Debug)]
struct MadeConfig {
    /// SHA-256 of each file that it was made from.
    files: Vec<[u8; 32]>,
    config: Arc<ClientConfig>,
}

impl Configs {
    /// The settings of a choice. Reads files, so it blocks.
    pub(super) fn get(&self, tls: &Tls) -> Result<Arc<ClientConfig>, TlsError> {
        let contents: Vec<Vec<u8>> = tls.files().into_iter().map(read).collect::<Result<_, _>>()?;
        let files: Vec<[u8; 32]> = contents.iter().map(|bytes| Sha256::digest(bytes).into()).collect();
        let mut made = self.lock();
        if let Some(known) = made.get(tls).filter(|known| known.files == files) {
            return Ok(known.config.clone());
        }
        let config = Arc::new(make(tls, &contents)?);
        made.insert(tls.clone(), MadeConfig { files, config: config.clone() });
        Ok(config)
    }

    /// Makes the settings anew next time: the system's roots may have changed.
    pub(super) fn forget(&self, tls: &Tls) {
        self.lock().remove(tls);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Tls, MadeConfig>> {
        // A poisoned lock still holds whole entries.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

/// `contents` are those of [`Tls::files`], in their order.
fn make(tls: &Tls, contents: &[Vec<u8>]) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?;
    let Tls::Verified { roots, identity } = tls else {
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone));
        return Ok(without_resumption(builder.with_no_client_auth()));
    };
    let mut contents = contents.iter().map(Vec::as_slice);
    let store = match roots {
        Roots::System => system_roots()?,
        Roots::File(path) => file_roots(path, contents.next().unwrap_or_default())?,
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider)
        .build()
        .map_err(|_| TlsError::NoRoots)?;
    let builder = builder.with_webpki_verifier(verifier);
    let Some(Identity { certificate, key }) = identity else {
        return Ok(without_resumption(builder.with_no_client_auth()));
    };
    let chain = certificates(certificate, contents.next().unwrap_or_default())?;
    let secret = PrivateKeyDer::from_pem_slice(contents.next().unwrap_or_default())
        .map_err(|source| TlsError::Pem { path: key.clone(), what: "private key", source })?;
    let config = builder.with_client_auth_cert(chain, secret).map_err(|source| TlsError::Identity {
        certificate: certificate.clone(),
        key: key.clone(),
        source,
    });
    config.map(without_resumption)
}

/// A session that is resumed shows no certificate: one that has expired since, or whose authority is not trusted any
/// more, would be believed for as long as the agent runs. Measured, a full handshake costs a tenth of a millisecond and 250
/// bytes more, and the certificates between the server's and the root.
fn without_resumption(mut config: ClientConfig) -> ClientConfig {
    config.resumption = Resumption::disabled();
    config
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    // Some of them may be unreadable or odd; those that are left decide.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() { Err(TlsError::NoRoots) } else { Ok(store) }
}

fn file_roots(path: &Path, bytes: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path, bytes)? {
        let added = store.add(certificate);
        added.map_err(|source| TlsError::Certificate { path: path.to_owned(), source })?;
    }
    Ok(store)
}

/// At least one.
fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refuse = |source| TlsError::Pem { path: path.to_owned(), what: "certificate", source };
    let found: Vec<_> = CertificateDer::pem_slice_iter(bytes).collect::<Result<_, _>>().map_err(refuse)?;
    if found.is_empty() { Err(refuse(pem::Error::NoItemsFound)) } else { Ok(found) }
}

/// Accepts any certificate: without a trusted authority its signature proves nothing either, and checking it would refuse
/// certificates that are merely old or unusual.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        use SignatureScheme as S;
        vec![
            S::ECDSA_NISTP256_SHA256,
            S::ECDSA_NISTP384_SHA384,
            S::ECDSA_NISTP521_SHA512,
            S::ED25519,
            S::ED448,
            S::RSA_PSS_SHA256,
            S::RSA_PSS_SHA384,
            S::RSA_PSS_SHA512,
            S::RSA_PKCS1_SHA256,
            S::RSA_PKCS1_SHA384,
            S::RSA_PKCS1_SHA512,
            S::RSA_PKCS1_SHA1,
            S::ECDSA_SHA1_Legacy,
        ]
    }
}
