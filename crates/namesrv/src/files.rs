//! All access of the name server to files. The name server uses no store, and so no `store::Disk`. The steps of a
//! change are those of the broker's configuration files, without the copy.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The content of a file; empty when the file does not exist.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Replaces a file so that a crash leaves either the old or the new content.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = directory.join(name);
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves a partial file beside the old file, longer than the new content, as a crash may.
    #[test]
    fn a_half_written_file_beside_it_does_no_harm() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kvConfig.json");
        assert_eq!(read(&path).unwrap(), b"");
        write_atomically(&path, b"old").unwrap();
        fs::write(home.path().join("kvConfig.json.tmp"), "new content, half").unwrap();
        assert_eq!(read(&path).unwrap(), b"old");
        write_atomically(&path, b"new").unwrap();
        assert_eq!(read(&path).unwrap(), b"new");
        assert!(!home.path().join("kvConfig.json.tmp").exists());
    }
}
