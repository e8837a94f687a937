//! What the configuration reads from the machine: its files, its drop-in directory, the hostname.
//! The only part of the configuration with effects; it checks no contents.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::ConfigError;

const DROP_IN_SUFFIX: &str = ".conf";

/// The files of a drop-in directory.
#[derive(Debug, Default)]
pub(crate) struct DropIns {
    /// Those to read, in the order in which they are merged.
    pub(crate) read: Vec<PathBuf>,
    /// Those ignored because of their suffix.
    pub(crate) ignored: Vec<PathBuf>,
}

/// The text of a file.
pub(crate) fn read_text(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|cause| ConfigError::Read { path: path.to_owned(), cause })
}

/// The drop-ins below a directory, sorted by name as kubelet walks it: a subdirectory's files come at its place.
pub(crate) fn list_drop_ins(directory: &Path) -> Result<DropIns, ConfigError> {
    let mut found = DropIns::default();
    walk(directory, &mut found)?;
    Ok(found)
}

fn walk(directory: &Path, found: &mut DropIns) -> Result<(), ConfigError> {
    let refuse = |cause| ConfigError::Read { path: directory.to_owned(), cause };
    let entries = fs::read_dir(directory).map_err(refuse)?.collect::<Result<Vec<_>, _>>();
    let mut entries = entries.map_err(refuse)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // A link to a directory is not followed, so there can be no loop.
        if entry.file_type().map_err(refuse)?.is_dir() {
            walk(&path, found)?;
        } else if entry.file_name().as_encoded_bytes().ends_with(DROP_IN_SUFFIX.as_bytes()) {
            found.read.push(path);
        } else {
            found.ignored.push(path);
        }
    }
    Ok(())
}

/// The files of a configuration that is one file, or a directory of `*.json`, `*.yaml` and `*.yml`, in their order.
pub(crate) fn list_provider_configs(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let refuse = |cause| ConfigError::Read { path: path.to_owned(), cause };
    if !fs::metadata(path).map_err(refuse)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(refuse)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<_> = entries.collect::<Result<_, _>>().map_err(refuse)?;
    let is_config = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("json" | "yaml" | "yml")) && !path.is_dir()
    };
    paths.retain(is_config);
    paths.sort();
    Ok(paths)
}

/// The paths of those names that are not files in the directory.
pub(crate) fn missing_files<'a>(directory: &Path, names: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    names.map(|name| directory.join(name)).filter(|path| !path.is_file()).collect()
}

/// The hostname, as the kernel has it.
pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{hostname, list_drop_ins, list_provider_configs, read_text};

    #[test]
    fn drop_ins_are_conf_files_in_lexical_order() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir(root.join("20-sub")).unwrap();
        for name in
            ["30.conf", "10.conf", "notes.txt", "20-sub/b.conf", "20-sub/a.conf", "05.conf.bak", ".conf"]
        {
            fs::write(root.join(name), "").unwrap();
        }
        let found = list_drop_ins(root).unwrap();
        let names = |paths: &[std::path::PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&found.read), [".conf", "10.conf", "20-sub/a.conf", "20-sub/b.conf", "30.conf"]);
        assert_eq!(names(&found.ignored), ["05.conf.bak", "notes.txt"]);
    }

    #[test]
    fn provider_configs_are_a_file_or_a_directory_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir(root.join("d.yaml")).unwrap();
        for name in ["b.yml", "a.json", "c.yaml", "c.yaml.bak", "readme"] {
            fs::write(root.join(name), "").unwrap();
        }
        let expect: Vec<_> = ["a.json", "b.yml", "c.yaml"].map(|name| root.join(name)).into();
        assert_eq!(list_provider_configs(root).unwrap(), expect);
        assert_eq!(list_provider_configs(&root.join("readme")).unwrap(), [root.join("readme")]);
        assert!(list_provider_configs(&root.join("none")).is_err());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for line in [
            read_text("/nowhere/config.yaml".as_ref()).unwrap_err().to_string(),
            list_drop_ins("/nowhere/config.yaml".as_ref()).unwrap_err().to_string(),
        ] {
            assert!(line.starts_with("cannot read /nowhere/config.yaml: "), "{line}");
        }
        assert!(!hostname().is_empty());
    }
}
