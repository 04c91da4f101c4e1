//! Makes keys and certificates.

use std::path::PathBuf;
use std::time::Duration;

use probe_user::channel::Identity;
use probe_user::keys::{ClusterKeys, KeyError};

use super::rotation::{self, RotationError};
use crate::channel::{AuthorityError, Certified, Pair};
use crate::client::ControllerOptions;

/// Where keys are unless said otherwise.
const CLUSTER_KEY: &str = "/etc/pulsepath/cluster.key";
/// Where certificates are unless said otherwise.
const DIRECTORY: &str = "/etc/pulsepath";
const DAY: Duration = Duration::from_secs(86_400);

/// Which key to make, and where to put it.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Make the key of the node with this name, rather than a new cluster key
    #[arg(long, value_name = "NAME", requires = "out")]
    pub node: Option<String>,
    /// The cluster key from which a node's key is derived, or that is replaced
    #[arg(long, value_name = "FILE", default_value = CLUSTER_KEY)]
    pub cluster_key: PathBuf,
    /// The new file, of mode 0600; one that exists is never touched [default for a cluster key:
    /// /etc/pulsepath/cluster.key]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Id of a new cluster key; keys that are valid at the same time need different ones
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "node")]
    pub id: u16,
    /// Begin to replace the cluster key: add the next one to its file. A running controller brings it
    /// to the nodes
    #[arg(long, conflicts_with_all = ["node", "out", "id", "ca", "cert"])]
    pub rotate: bool,
    /// End that, once the controller says that every node has the next key: take the old one out of
    /// the file
    #[arg(long, conflicts_with_all = ["rotate", "node", "out", "id", "ca", "cert"])]
    pub finish: bool,
    /// Finish without asking a controller. It brings the key to nodes that do not have it over the
    /// control channel, but until then hears nothing of them
    #[arg(long, requires = "finish")]
    pub force: bool,
    #[command(flatten)]
    pub(super) controller: ControllerOptions,
    /// Make an authority for the control channel: DIR/ca.crt and DIR/ca.key
    #[arg(long, conflicts_with_all = ["node", "out", "cert"])]
    pub ca: bool,
    /// Make a certificate by that authority: `--cert controller` (DIR/controller.crt and
    /// DIR/controller-tls.key), `--cert node NAME` (DIR/NAME.crt and DIR/NAME-tls.key), or likewise
    /// `--cert name NAME` for what `control.agent_name` or `control.controller_name` names
    #[arg(long, value_name = "ROLE", num_args = 1..=2, conflicts_with_all = ["node", "out"])]
    pub cert: Vec<String>,
    /// Directory of the authority's and the new files
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    pub dir: PathBuf,
    /// For how long a new certificate is valid
    #[arg(long, value_name = "N", default_value_t = 3650,
          value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum KeygenError {
    /// A probe key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The end of a rotation.
    #[error(transparent)]
    Rotation(#[from] RotationError),
    /// A certificate.
    #[error(transparent)]
    Certificate(#[from] AuthorityError),
    /// A role that there is not.
    #[error(
        "`--cert {given}`: give `controller`, or `node` and the node's name (without `/`), or `name` \
         and a DNS name"
    )]
    Role {
        /// What was given.
        given: String,
    },
}

/// Makes a key, or a certificate and its key, and returns where they are.
///
/// # Errors
///
/// Names the file that cannot be read or written, or the nodes that a rotation still waits for.
pub async fn keygen(options: Options) -> Result<Vec<PathBuf>, KeygenError> {
    if options.rotate {
        rotation::begin(&options.cluster_key)?;
        return Ok(vec![options.cluster_key]);
    }
    if options.finish {
        let controller = (!options.force).then_some(options.controller);
        rotation::finish(&options.cluster_key, controller).await?;
        return Ok(vec![options.cluster_key]);
    }
    if options.ca || !options.cert.is_empty() {
        return certify(&options);
    }
    let out = options.out.unwrap_or_else(|| CLUSTER_KEY.into());
    match options.node {
        Some(node) => ClusterKeys::read(&options.cluster_key)?
            .node_keys(&node)
            .write_new(&out)?,
        None => ClusterKeys::generate(options.id)?.write_new(&out)?,
    }
    Ok(vec![out])
}

fn certify(options: &Options) -> Result<Vec<PathBuf>, KeygenError> {
    let pair = |cert: String, key: String| Pair {
        cert: options.dir.join(cert),
        key: options.dir.join(key),
    };
    let authority = pair("ca.crt".to_owned(), "ca.key".to_owned());
    let validity = DAY * options.days;
    let (made, files) = if options.ca {
        (Certified::authority(validity)?, authority)
    } else {
        let identity = identity(&options.cert)?;
        let name = match &identity {
            Identity::Controller => "controller",
            Identity::Node(name) | Identity::Named(name) => name,
        };
        let files = pair(format!("{name}.crt"), format!("{name}-tls.key"));
        (Certified::issue(&identity, validity, &authority)?, files)
    };
    made.write_new(&files)?;
    Ok(vec![files.cert, files.key])
}

fn identity(role: &[String]) -> Result<Identity, KeygenError> {
    let words: Vec<&str> = role.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["controller"] => Ok(Identity::Controller),
        // It names files, too.
        ["node", name] if !name.is_empty() && !name.contains('/') => {
            Ok(Identity::Node((*name).to_owned()))
        }
        ["name", name] if !name.is_empty() && !name.contains('/') => {
            Ok(Identity::Named((*name).to_owned()))
        }
        _ => Err(KeygenError::Role {
            given: role.join(" "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use clap::Parser as _;
    use probe_user::channel::{Credentials, TlsFiles};

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn make(dir: &Path, line: &str) -> Result<Vec<PathBuf>, String> {
        let dir = dir.to_str().unwrap();
        let line = ["keygen", "--dir", dir].into_iter().chain(line.split(' '));
        let line = Line::try_parse_from(line).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let made = runtime.unwrap().block_on(keygen(line.options));
        made.map_err(|error| error.to_string())
    }

    #[test]
    fn an_authority_and_its_certificates_can_be_used_as_they_are_made() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let ca = make(dir, "--ca").unwrap();
        for line in ["--cert controller", "--cert node n1", "--cert name agents"] {
            let made = make(dir, line).unwrap();
            let files = TlsFiles {
                ca: ca[0].clone(),
                cert: made[0].clone(),
                key: made[1].clone(),
                peer: None,
            };
            Credentials::open(files).unwrap();
        }
    }

    #[test]
    fn keys_are_their_owners_alone_and_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let key = make(dir, "--ca").unwrap()[1].clone();
        assert_eq!(
            fs::metadata(&key).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let before = fs::read(&key).unwrap();
        let error = make(dir, "--ca").unwrap_err();
        assert!(error.contains("exists already"), "{error}");
        assert_eq!(fs::read(&key).unwrap(), before);
    }

    #[test]
    fn a_role_that_there_is_not_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        make(directory.path(), "--ca").unwrap();
        for line in ["--cert witness", "--cert node", "--cert node a/b"] {
            let error = make(directory.path(), line).unwrap_err();
            assert!(error.contains("`controller`, or `node`"), "{error}");
        }
    }

    #[test]
    fn without_an_authority_no_certificate_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let error = make(directory.path(), "--cert controller").unwrap_err();
        assert!(error.contains("ca.crt"), "{error}");
    }

    /// A file with a new cluster key, and the words that name it.
    fn cluster_key(dir: &Path) -> (PathBuf, String) {
        let file = dir.join("cluster.key");
        make(dir, &format!("--out {}", file.display())).unwrap();
        let named = format!("--cluster-key {}", file.display());
        (file, named)
    }

    fn ids(file: &Path) -> Vec<u16> {
        ClusterKeys::read(file).unwrap().ids()
    }

    #[test]
    fn a_rotation_goes_from_one_key_over_two_to_the_other() {
        let directory = tempfile::tempdir().unwrap();
        let (file, named) = cluster_key(directory.path());
        make(directory.path(), &format!("--rotate {named}")).unwrap();
        assert_eq!(ids(&file), [1, 2]);
        make(directory.path(), &format!("--finish --force {named}")).unwrap();
        assert_eq!(ids(&file), [2]);
    }

    #[test]
    fn a_step_whose_turn_has_not_come_is_refused_with_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let (file, named) = cluster_key(directory.path());
        let refused = |line: &str| make(directory.path(), &format!("{line} {named}")).unwrap_err();
        let error = refused("--finish --force");
        assert!(error.contains("no rotation is under way"), "{error}");
        make(directory.path(), &format!("--rotate {named}")).unwrap();
        let error = refused("--rotate");
        assert!(error.contains("from key 1 to key 2"), "{error}");
        assert!(error.contains(&file.display().to_string()), "{error}");
        assert_eq!(ids(&file), [1, 2]);
    }

    #[test]
    fn a_rotation_is_not_finished_where_nobody_says_that_it_may_be() {
        let directory = tempfile::tempdir().unwrap();
        let (file, named) = cluster_key(directory.path());
        make(directory.path(), &format!("--rotate {named}")).unwrap();
        let nobody = format!("--finish --controller http://127.0.0.1:1 {named}");
        let error = make(directory.path(), &nobody).unwrap_err();
        assert!(
            error.contains("127.0.0.1:1") && error.contains("--force"),
            "{error}"
        );
        assert_eq!(ids(&file), [1, 2]);
    }
}
