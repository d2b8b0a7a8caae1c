//! Files of drop-in directories, as modules-load.d(5) and udev(7) have them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Returns the files with an extension in the order of their names: a file of an earlier directory covers those of its
/// name in later ones.
pub fn files(directories: &[&str], extension: &str) -> Vec<PathBuf> {
    let mut all = BTreeMap::new();
    for directory in directories.iter().rev() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|found| found == extension) {
                all.insert(entry.file_name(), path);
            }
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_earlier_directories_cover_others() {
        let dir = std::env::temp_dir().join(format!("weft-drop-in-{}", std::process::id()));
        let [etc, usr] = ["etc", "usr"].map(|name| dir.join(name));
        for (directory, names) in [(&etc, ["b.conf", "c.txt"]), (&usr, ["a.conf", "b.conf"])] {
            fs::create_dir_all(directory).unwrap();
            names.iter().for_each(|name| fs::write(directory.join(name), "").unwrap());
        }
        let found = files(&[etc.to_str().unwrap(), usr.to_str().unwrap()], "conf");
        assert_eq!(found, [usr.join("a.conf"), etc.join("b.conf")]);
        fs::remove_dir_all(dir).unwrap();
    }
}
