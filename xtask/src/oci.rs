//! Images as OCI archives, which container runtimes and registries' clients read: written with `tar` and
//! `sha256sum`, without a daemon and without a base image.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::shell::{output, run};

const MEDIA_TYPE: &str = "application/vnd.oci.image.";

/// An image of one layer.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// With registry, if any, and tag.
    pub names: Vec<String>,
    /// For which processors, as Go names them: `amd64`, `arm64`.
    pub architecture: String,
    /// As whom it runs, if not as root.
    pub user: Option<String>,
    /// What runs if nothing else is asked for.
    pub entrypoint: Vec<String>,
    /// What people and tools are told about it.
    pub labels: BTreeMap<String, String>,
}

impl Image {
    /// Writes the image with all that is below the directory `root` to `archive`. The same content makes
    /// the same archive.
    ///
    /// # Errors
    /// A file cannot be written, or `tar` or `sha256sum` fails.
    pub fn write(&self, root: &Path, archive: &Path) -> Result<()> {
        let layout = Layout::new(archive)?;
        let layer = layout.add("layer.v1.tar", |blob| pack(root, blob))?;
        let config = self.config(&layer["digest"]);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": format!("{MEDIA_TYPE}manifest.v1+json"),
            "config": layout.add("config.v1+json", |blob| write(blob, &config))?,
            "layers": [layer],
        });
        let manifest = layout.add("manifest.v1+json", |blob| write(blob, &manifest))?;
        let named = self.names.iter().map(|name| name_manifest(&manifest, name));
        let index = json!({ "schemaVersion": 2, "manifests": named.collect::<Vec<_>>() });
        write(&layout.0.join("index.json"), &index)?;
        pack(&layout.0, archive)?;
        fs::remove_dir_all(&layout.0).with_context(|| format!("remove {}", layout.0.display()))
    }

    fn config(&self, layer: &Value) -> Value {
        let mut run = json!({ "Entrypoint": self.entrypoint, "Labels": self.labels });
        if let Some(user) = &self.user {
            run["User"] = json!(user);
        }
        json!({
            "architecture": self.architecture,
            "os": "linux",
            "config": run,
            "rootfs": { "type": "layers", "diff_ids": [layer] },
        })
    }
}

/// Those who read archives look for the name in different places.
fn name_manifest(manifest: &Value, name: &str) -> Value {
    let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    let mut named = manifest.clone();
    named["annotations"] = json!({
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": tag,
    });
    named
}

/// The directory of an image, as OCI lays it out.
struct Layout(PathBuf);

impl Layout {
    /// An empty one beside `archive`.
    fn new(archive: &Path) -> Result<Self> {
        let directory = archive.with_extension("layout");
        if directory.exists() {
            fs::remove_dir_all(&directory)
                .with_context(|| format!("remove {}", directory.display()))?;
        }
        fs::create_dir_all(directory.join("blobs/sha256"))
            .with_context(|| format!("make {}", directory.display()))?;
        let marker = json!({ "imageLayoutVersion": "1.0.0" });
        write(&directory.join("oci-layout"), &marker)?;
        Ok(Self(directory))
    }

    /// Adds what `make` writes to the path that it is given, and returns how others refer to it.
    fn add(&self, kind: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<Value> {
        let blobs = self.0.join("blobs/sha256");
        let blob = blobs.join("new");
        make(&blob)?;
        let size = fs::metadata(&blob)
            .with_context(|| format!("look at {}", blob.display()))?
            .len();
        let sum = sha256(&blob)?;
        let path = blobs.join(&sum);
        fs::rename(&blob, &path).with_context(|| format!("make {}", path.display()))?;
        Ok(json!({
            "mediaType": format!("{MEDIA_TYPE}{kind}"),
            "digest": format!("sha256:{sum}"),
            "size": size,
        }))
    }
}

fn sha256(path: &Path) -> Result<String> {
    // Debug builds of hash functions take minutes for what this does in a second.
    let sum = output(Command::new("sha256sum").arg(path))?;
    let sum = sum.split_whitespace().next();
    Ok(sum.context("sha256sum says nothing")?.to_owned())
}

/// Packs what is in `directory` into the archive `path`.
fn pack(directory: &Path, path: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--file").arg(path);
    tar.args(["--owner=0", "--group=0", "--sort=name", "--mtime=@0"]);
    run(tar.arg("--directory").arg(directory).arg("."))
}

fn write(path: &Path, content: &Value) -> Result<()> {
    fs::write(path, content.to_string()).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of one file, unpacked again.
    fn unpacked(directory: &Path) -> PathBuf {
        let root = directory.join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("program"), "what runs").unwrap();
        let image = Image {
            names: vec!["registry.example.com/program:1".to_owned()],
            architecture: "amd64".to_owned(),
            user: Some("65532".to_owned()),
            entrypoint: vec!["/program".to_owned()],
            labels: BTreeMap::from([("title".to_owned(), "A program".to_owned())]),
        };
        let archive = directory.join("image.tar");
        image.write(&root, &archive).unwrap();
        let layout = directory.join("unpacked");
        unpack(&archive, &layout);
        layout
    }

    fn unpack(archive: &Path, directory: &Path) {
        fs::create_dir(directory).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(archive);
        run(tar.arg("--directory").arg(directory)).unwrap();
    }

    fn read(path: &Path) -> Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    /// The blob that a reference names, if it is the one that was meant.
    fn blob(layout: &Path, reference: &Value) -> PathBuf {
        let digest = reference["digest"].as_str().unwrap();
        let sum = digest.strip_prefix("sha256:").unwrap();
        let path = layout.join("blobs/sha256").join(sum);
        assert_eq!(sha256(&path).unwrap(), sum);
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            reference["size"].as_u64().unwrap()
        );
        path
    }

    #[test]
    fn an_archive_leads_from_its_name_to_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let layout = unpacked(directory.path());
        assert_eq!(
            read(&layout.join("oci-layout"))["imageLayoutVersion"],
            "1.0.0"
        );
        let index = read(&layout.join("index.json"));
        let named = &index["manifests"][0];
        let annotations = &named["annotations"];
        assert_eq!(
            annotations["io.containerd.image.name"],
            "registry.example.com/program:1"
        );
        assert_eq!(annotations["org.opencontainers.image.ref.name"], "1");
        let manifest = read(&blob(&layout, named));
        let config = read(&blob(&layout, &manifest["config"]));
        let layer = &manifest["layers"][0];
        assert_eq!(config["rootfs"]["diff_ids"][0], layer["digest"]);
        let files = directory.path().join("files");
        unpack(&blob(&layout, layer), &files);
        assert_eq!(
            fs::read_to_string(files.join("program")).unwrap(),
            "what runs"
        );
    }

    #[test]
    fn an_archive_says_how_its_program_runs() {
        let directory = tempfile::tempdir().unwrap();
        let layout = unpacked(directory.path());
        let index = read(&layout.join("index.json"));
        let manifest = read(&blob(&layout, &index["manifests"][0]));
        let config = read(&blob(&layout, &manifest["config"]));
        assert_eq!(
            (&config["architecture"], &config["os"]),
            (&json!("amd64"), &json!("linux"))
        );
        assert_eq!(config["config"]["Entrypoint"], json!(["/program"]));
        assert_eq!(config["config"]["User"], "65532");
        assert_eq!(config["config"]["Labels"]["title"], "A program");
    }

    #[test]
    fn the_same_files_make_the_same_archive() {
        let archive = |directory: &Path| {
            unpacked(directory);
            sha256(&directory.join("image.tar")).unwrap()
        };
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(archive(first.path()), archive(second.path()));
    }
}
