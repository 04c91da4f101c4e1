//! The duty in a file, so that a witness that restarts needs no controller.

use crate::channel::{Duty, Kept, KeptFile, proto};

/// The file of a witness's duty.
pub type DutyFile = KeptFile<Duty>;

impl Kept for Duty {
    type Message = proto::WitnessRequest;
    const SUFFIX: &str = ".witness";
    /// It holds the keys of other nodes.
    const MODE: u32 = 0o600;
    const WHAT: &str = "witness's duty";
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::channel::Watched;
    use crate::keys::ClusterKeys;

    fn duty(version: u64) -> Duty {
        let watched = Watched {
            keys: ClusterKeys::generate(1).unwrap().node_keys("n1"),
            addresses: vec!["10.77.0.1".parse().unwrap()],
            floor: 7,
            vote: true,
        };
        Duty {
            version,
            instance: Some(9),
            watched: vec![watched],
            period: Duration::from_millis(200),
            lease: Duration::from_millis(1_400),
            port: 862,
        }
    }

    #[test]
    fn the_last_duty_is_read_as_it_was_written_and_none_once_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = DutyFile::beside(&directory.path().join("made/agent.json"));
        assert_eq!(file.read().unwrap(), None);
        for version in [1, 2] {
            let duty = duty(version);
            file.write(duty.clone()).unwrap();
            assert_eq!(file.read().unwrap(), Some(duty));
        }
        assert!(file.remove().unwrap());
        assert!(!file.remove().unwrap());
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn what_is_no_duty_is_refused_by_the_files_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = DutyFile::beside(&directory.path().join("agent.json"));
        fs::write(file.path(), "{}").unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("agent.json.witness holds no"), "{error}");
        // A message, but one without a period.
        fs::write(file.path(), [8, 1]).unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("that makes no sense"), "{error}");
    }
}
