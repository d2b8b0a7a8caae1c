//! Small programs over pyverbs: behaviour that no packaged tool shows (idle pairs, a thousand queue pairs).

use crate::lab::{Lab, Side};
use crate::proc::Proc;
use crate::user::Who;
use anyhow::{Context, Result};

/// Required file of these programs, for [`crate::skip::have`].
pub const PYVERBS: &str = "/usr/lib/python3/dist-packages/pyverbs/__init__.py";

/// Start of every script: a device, a protection domain, and two helpers.
const PRELUDE: &str = include_str!("prelude.py");

/// Writes `body` after the prelude and starts it under `weft run` with the side's device as argument.
pub fn start(lab: &Lab, side: &Side, who: Who, name: &str, body: &str) -> Result<Proc> {
    start_env(lab, side, who, &[], name, body)
}

/// [`start`], with variables added to the environment.
pub fn start_env(lab: &Lab, side: &Side, who: Who, env: &[(&str, &str)], name: &str, body: &str) -> Result<Proc> {
    let path = lab.file(&format!("{name}.py"));
    std::fs::write(&path, format!("{PRELUDE}\n{body}"))?;
    let device = lab.device(side)?;
    let path = path.to_str().context("the lab's path is not UTF-8")?;
    lab.start(side, who, env, &["/usr/bin/python3", "-u", path, &device.name, &device.gid_v4.to_string()])
}
