//! A limit on the memory of this process, of the system's: what it has for itself, and what the kernel has of its files.
//!
//! By a control group (`cgroup`), of the second version or the first, below the one that this process is in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use crate::failure::{Failure, Result};

/// A group with a limit, which nobody is in yet. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Limit {
    group: PathBuf,
    /// The group that this process is in.
    home: PathBuf,
}

/// This process is in the group, until this is dropped.
#[derive(Debug)]
pub(super) struct Limited {
    limit: Limit,
}

impl Limit {
    /// Makes a group that may have so many bytes.
    ///
    /// # Errors
    /// [`Failure::NotHere`] where there are no control groups of memory, or not for this user.
    pub(super) fn prepare(bytes: u64) -> Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let (home, limit) = home(&own, Path::new("/sys/fs/cgroup"))
            .ok_or_else(|| Failure::NotHere("there are no control groups of memory".to_owned()))?;
        let limit =
            Limit { group: home.join(format!("quire-bench-{}", process::id())), home: home.clone() }.with(limit, bytes);
        limit.map_err(|error| {
            Failure::NotHere(format!(
                "can't make a control group below {}, which takes the rights of root: {error}",
                home.display()
            ))
        })
    }

    fn with(self, limit: &str, bytes: u64) -> std::io::Result<Self> {
        fs::create_dir(&self.group)?;
        fs::write(self.group.join(limit), bytes.to_string())?;
        Ok(self)
    }

    /// Has this process keep to the limit. What it has already does not count, nor what the kernel has of its files by now.
    ///
    /// # Errors
    /// [`Failure::NotHere`] when the system does not let it.
    pub(super) fn enter(self) -> Result<Limited> {
        move_to(&self.group).map_err(|error| Failure::NotHere(format!("can't enter a control group: {error}")))?;
        Ok(Limited { limit: self })
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // An empty folder that is left harms nobody.
        let _ = fs::remove_dir(&self.group);
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // It came from there, so it may go back.
        let _ = move_to(&self.limit.home);
    }
}

fn move_to(group: &Path) -> std::io::Result<()> {
    fs::write(group.join("cgroup.procs"), process::id().to_string())
}

/// The group of memory that a process is in, by its lines of `/proc/self/cgroup`, and the name of the file that limits one below it.
fn home(own: &str, root: &Path) -> Option<(PathBuf, &'static str)> {
    let at = |root: PathBuf, path: &str| root.join(path.trim_start_matches('/'));
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        if controllers.split(',').any(|name| name == "memory") {
            return Some((at(root.join("memory"), path), "memory.limit_in_bytes"));
        }
        let unified = at(root.to_owned(), path);
        let controls = fs::read_to_string(unified.join("cgroup.subtree_control")).unwrap_or_default();
        (controllers.is_empty() && controls.split_whitespace().any(|name| name == "memory"))
            .then_some((unified, "memory.max"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_in_either_version() {
        let root = tempfile::tempdir().expect("a folder");
        let first = "12:pids:/a\n3:cpu,memory:/b/c\n0::/d\n";
        assert_eq!(home(first, root.path()), Some((root.path().join("memory/b/c"), "memory.limit_in_bytes")));
        assert_eq!(home("0::/d\n", root.path()), None, "it hands no memory on");
        fs::create_dir(root.path().join("d")).expect("made");
        fs::write(root.path().join("d/cgroup.subtree_control"), "cpu memory\n").expect("written");
        assert_eq!(home("0::/d\n", root.path()), Some((root.path().join("d"), "memory.max")));
    }
}
