//! The nodes' names in a file, so that an agent that restarts calls peers by name at once.

use super::TunnelQuestion;
use crate::channel::{Kept, KeptFile, proto};

/// The file of the question that named the nodes last.
pub type NamesFile = KeptFile<TunnelQuestion>;

impl Kept for TunnelQuestion {
    type Message = proto::TunnelsRequest;
    const SUFFIX: &str = ".peers";
    const MODE: u32 = 0o644;
    const WHAT: &str = "list of nodes";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnels::Named;

    #[test]
    fn names_are_read_as_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = NamesFile::beside(&directory.path().join("agent.json"));
        let named = TunnelQuestion::among(
            [Named {
                node: "n1".to_owned(),
                addresses: vec!["10.0.0.1".parse().unwrap()],
            }]
            .into(),
        );
        file.write(named.clone()).unwrap();
        assert!(file.path().ends_with("agent.json.peers"));
        assert_eq!(file.read().unwrap(), Some(named));
    }
}
