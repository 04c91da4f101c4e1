//! Who a certificate speaks for.

use std::fmt;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

const SCHEME: &str = "pulsepath://";

/// Who a certificate speaks for: a URI among its subject alternative names, or a DNS name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A controller: `pulsepath://controller`.
    Controller,
    /// The agent of the node with this name: `pulsepath://node/NAME`.
    Node(String),
    /// Whoever has this DNS name, of no host: where one certificate is shared by all agents, or
    /// certificates come from somebody who puts no URIs into them.
    Named(String),
}

impl Identity {
    /// Whether the certificate speaks for this identity. A certificate may speak for several.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be read.
    pub fn is_in(&self, certificate: &CertificateDer<'_>) -> Result<bool, webpki::Error> {
        let wanted = self.to_string();
        let certificate = EndEntityCert::try_from(certificate)?;
        Ok(match self {
            Self::Named(_) => certificate
                .valid_dns_names()
                .any(|name| name.eq_ignore_ascii_case(&wanted)),
            Self::Controller | Self::Node(_) => {
                certificate.valid_uri_names().any(|name| name == wanted)
            }
        })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller => write!(f, "{SCHEME}controller"),
            Self::Node(name) => {
                write!(f, "{SCHEME}node/")?;
                name.bytes().try_for_each(|byte| write_escaped(f, byte))
            }
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// A URI holds few characters as they are (RFC 3986, section 2.3).
fn write_escaped(f: &mut fmt::Formatter<'_>, byte: u8) -> fmt::Result {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            write!(f, "{}", char::from(byte))
        }
        other => write!(f, "%{other:02X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_uris_whatever_a_node_is_called() {
        assert_eq!(Identity::Controller.to_string(), "pulsepath://controller");
        let node = |name: &str| Identity::Node(name.to_owned()).to_string();
        assert_eq!(node("n1.example"), "pulsepath://node/n1.example");
        assert_eq!(node("a/b ü"), "pulsepath://node/a%2Fb%20%C3%BC");
    }
}
