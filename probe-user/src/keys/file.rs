//! Key files: few short lines, readable by their owner only.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{KeyError, MAX_KEYS, MalformedKey};
use crate::private;

const OWNER_ONLY: u32 = 0o600;
/// No key file is nearly as long; whatever is longer is read no further.
const MAX_BYTES: u64 = 4096;

/// Reads a key from each line. `form` tells people what a line looks like.
pub(super) fn read<T>(
    path: &Path,
    form: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, KeyError> {
    let text = read_private(path)?;
    let malformed = |reason| KeyError::Malformed {
        path: path.to_owned(),
        reason,
    };
    let lines = text.lines().collect::<Vec<_>>();
    match lines.len() {
        0 => return Err(malformed(MalformedKey::Empty)),
        1..=MAX_KEYS => {}
        lines => return Err(malformed(MalformedKey::TooMany { lines })),
    }
    let parsed = lines.iter().enumerate().map(|(index, line)| {
        parse(line).ok_or_else(|| {
            malformed(MalformedKey::Line {
                line: index + 1,
                form,
            })
        })
    });
    parsed.collect()
}

/// Refuses two keys with one id: a probe could not say which it means.
pub(super) fn check_ids(path: &Path, ids: impl Iterator<Item = u16>) -> Result<(), KeyError> {
    let ids = ids.collect::<Vec<_>>();
    match ids.as_slice() {
        [first, second] if first == second => Err(KeyError::Malformed {
            path: path.to_owned(),
            reason: MalformedKey::SameId { id: *first },
        }),
        _ => Ok(()),
    }
}

fn read_private(path: &Path) -> Result<String, KeyError> {
    let failed = |source| KeyError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    // Asked of the open file, so that it is the mode of what is read.
    if let Some(mode) = private::exposed(&file.metadata().map_err(failed)?) {
        return Err(KeyError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = String::new();
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}

/// Makes a file that only its owner may read, whole or not at all.
pub(super) fn write_new(path: &Path, text: &str) -> Result<(), KeyError> {
    create_whole(path, OWNER_ONLY, text).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists {
            path: path.to_owned(),
        },
        _ => KeyError::Write {
            path: path.to_owned(),
            source,
        },
    })
}

/// Makes a file with this mode and content, whole or not at all, and brings it to the disk.
///
/// # Errors
///
/// There is one already (`AlreadyExists`), or it cannot be written.
pub fn create_whole(path: &Path, mode: u32, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content.as_ref())
        .and_then(|()| file.sync_all())
        .inspect_err(|_| {
            // Half a file is of no use, and would stand in the way of the next attempt. If it cannot
            // be removed, the error that is returned is still the one that matters.
            let _ = fs::remove_file(path);
        })
}

/// Puts a new file that only its owner may read in the place of the one that may be there.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), KeyError> {
    replace_whole(path, OWNER_ONLY, text).map_err(|source| KeyError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Puts a new file with this mode and content in the place of the one that may be there. Whoever reads
/// it gets the old content or the new one, whatever happens meanwhile; once this returns, the new one.
///
/// # Errors
///
/// It cannot be written.
pub fn replace_whole(path: &Path, mode: u32, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // Left over from an attempt that was interrupted.
        _ => {}
    }
    create_whole(&new, mode, content)?;
    fs::rename(&new, path)?;
    // The file's name has to last, too.
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all())
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(
        String::with_capacity(bytes.len() * 2),
        |mut digits, byte| {
            // Writing to a string cannot fail.
            let _ = write!(digits, "{byte:02x}");
            digits
        },
    )
}

/// `None`: not exactly `N` bytes in hexadecimal digits.
pub(super) fn from_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let value = |digit: u8| (digit as char).to_digit(16);
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
    }
    Some(bytes)
}
