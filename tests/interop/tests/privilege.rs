//! A set-user-ID program has its caller's environment and its owner's rights, so Weft ignores the environment there.

use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use weft_interop::{Lab, Shape, Table, Who, skip};

#[test]
fn set_user_id_programs_obey_no_stranger() {
    if !skip::have("set_user_id_programs_obey_no_stranger", &["ip", "setpriv", "ibv_devinfo"]) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        // In a user namespace with a single user, no other user's rights are available to such a program.
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("set-user-ID");
    table.case("files that the environment names are not written", || {
        let program = suid_copy(&lab)?;
        let program = program.to_str().context("a path in UTF-8")?;
        for variable in ["WEFT_PCAP", "WEFT_LOG", "WEFT_FAULT"] {
            let file = lab.file(&format!("written-for-{variable}"));
            let name = file.to_str().context("a path in UTF-8")?;
            // A file name is no valid fault specification: open fails if Weft reads it. `weft run` does, so `env` sets
            // it after that.
            let setting = format!("{variable}={name}");
            let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
            let words = [&user[..], &["env", &setting, program]].concat();
            lab.run(lab.client(), Who::Root, &[], &words)?.success()?;
            ensure!(!file.exists(), "{variable} was obeyed: {name} was made");
        }
        Ok(())
    });
    table.finish();
}

/// Copies Debian's `ibv_devinfo` with a set-user-ID bit and owner root.
fn suid_copy(lab: &Lab) -> Result<PathBuf> {
    let copy = lab.file("suid-devinfo");
    std::fs::copy("/usr/bin/ibv_devinfo", &copy)?;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755))?;
    Ok(copy)
}
