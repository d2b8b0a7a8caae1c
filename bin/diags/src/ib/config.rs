//! `ibdiag.conf`: an administrator's defaults for all tools.

use super::common::Common;
use super::number::number;

/// Path of the configuration file.
pub const PATH: &str = "/etc/infiniband-diags/ibdiag.conf";

/// Reads the defaults of the file at `path` into `common`. A missing file changes nothing.
pub fn read(path: &str, common: &mut Common) {
    if let Ok(text) = crate::named_file::read(path) {
        apply(&text, common);
    }
}

/// Parses lines of `NAME=VALUE`; a name may have any suffix, as in the original.
fn apply(text: &str, common: &mut Common) {
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.split_once('=') else { continue };
        let is = |known: &str| name.starts_with(known);
        if is("CA") {
            common.ca = Some(value.to_owned());
        } else if is("Port") {
            common.port = number(value) as i32;
        } else if is("timeout") {
            common.timeout_ms = u32::try_from(number(value)).ok().filter(|&ms| ms > 0);
        } else if is("MLX_EPI") {
            common.mlx_epi = value.starts_with("TRUE") || value.starts_with("true");
        } else if is("m_key") {
            common.m_key = number(value);
        } else if is("sa_key") {
            common.sa_key = number(value);
        } else if is("nd_format") {
            common.nd_format = Some(value.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_understood() {
        let mut common = Common::default();
        let text =
            "# CA=no\n\nCA=mlx5_0\nPort=2\ntimeout=50\nMLX_EPI=false\nm_key=0x10\nsa_key=7\nnd_format=%%h\nodd\n";
        apply(text, &mut common);
        assert_eq!((common.ca.as_deref(), common.port, common.timeout_ms), (Some("mlx5_0"), 2, Some(50)));
        assert_eq!((common.mlx_epi, common.m_key, common.sa_key), (false, 16, 7));
        assert_eq!(common.nd_format.as_deref(), Some("%%h"));
    }
}
