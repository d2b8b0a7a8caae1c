//! `WEFT_MPA`: what iWARP connections of this process negotiate, where the peer leaves a choice. A comma-separated list of
//! `crc`, `markers`, `revision=1` and `rtr=write`, `rtr=read` or `rtr=fpdu`.

use std::sync::OnceLock;

use libc::c_int;
use weft_cm::iw::{MpaOptions, Rtr};

/// Returns the options, if the environment gives any.
///
/// # Errors
/// `EINVAL`: the variable has an unknown word, which stderr names once.
pub(crate) fn options() -> Result<Option<MpaOptions>, c_int> {
    static OPTIONS: OnceLock<Result<Option<MpaOptions>, c_int>> = OnceLock::new();
    *OPTIONS.get_or_init(|| {
        if weft_sys::process::gained_privilege() {
            return Ok(None);
        }
        let Some(text) = std::env::var_os("WEFT_MPA") else { return Ok(None) };
        parse(&text.to_string_lossy()).map(Some).map_err(|word| {
            eprintln!("weft: WEFT_MPA: unknown word `{word}`; use crc, markers, revision=1, rtr=write|read|fpdu");
            libc::EINVAL
        })
    })
}

/// Parses the list; the error is the unknown word.
fn parse(text: &str) -> Result<MpaOptions, &str> {
    let mut options = MpaOptions::default();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word {
            "crc" => options.crc = true,
            "markers" => options.markers = true,
            "revision=1" => options.revision_1 = true,
            "revision=2" => options.revision_1 = false,
            "rtr=write" => options.rtr = Some(Rtr::Write),
            "rtr=read" => options.rtr = Some(Rtr::Read),
            "rtr=fpdu" => options.rtr = Some(Rtr::Fpdu),
            _ => return Err(word),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_add_up_and_unknown_ones_are_named() {
        let wanted = MpaOptions { crc: true, markers: true, revision_1: true, rtr: Some(Rtr::Read) };
        assert_eq!(parse("crc, markers,revision=1,rtr=read"), Ok(wanted));
        assert_eq!(parse(""), Ok(MpaOptions::default()));
        assert_eq!(parse("crc,rtr=send"), Err("rtr=send"));
    }
}
