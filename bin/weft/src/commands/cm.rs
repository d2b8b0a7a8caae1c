//! `weft cm`: per-device defaults for new ids of the RDMA connection manager. Counterpart of
//! `/sys/kernel/config/rdma_cm/DEV/ports/1/default_roce_mode` and `default_roce_tos`, with the same names and values.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use weft_cm::rdma_cm::{Command, Reply, RoceMode};
use weft_ipc::{Client, Request, Response};

use super::devices::{self, Listed};
use super::iproute::{self, Members};
use super::link::failure;
use crate::getopt::number;
use crate::output;

/// Options of `weft cm`.
#[derive(Args, Debug)]
pub struct CmArgs {
    /// Device [default: show all devices]
    dev: Option<String>,
    /// Setting and value, `default_roce_mode v1` or `v2`, or `default_roce_tos N`; without the value, show that setting
    #[arg(value_name = "default_roce_mode v1|v2 | default_roce_tos N")]
    words: Vec<String>,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
}

/// The setting to change, or the single value to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wish {
    roce_mode: Option<RoceMode>,
    roce_tos: Option<u8>,
    show: Option<Setting>,
}

/// A default of new ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Version of RoCE.
    RoceMode,
    /// Type of service.
    RoceTos,
}

impl Setting {
    /// All of them.
    pub const ALL: [Setting; 2] = [Setting::RoceMode, Setting::RoceTos];

    /// Its name in configfs.
    pub const fn name(self) -> &'static str {
        match self {
            Setting::RoceMode => "default_roce_mode",
            Setting::RoceTos => "default_roce_tos",
        }
    }
}

/// Runs the command.
pub fn run(args: &CmArgs) -> ExitCode {
    match execute(args) {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn execute(args: &CmArgs) -> Result<String, String> {
    let wish = parse(&args.words)?;
    let mut client = super::connect().map_err(|e| format!("weft cm: {e}"))?;
    let devices = client.list_devices().map_err(|e| format!("weft cm: {e}"))?;
    let devices: Vec<Listed> = devices.into_iter().map(Listed::from).collect();
    if args.json && wish.show.is_none() && wish.roce_mode.is_none() && wish.roce_tos.is_none() {
        return as_json(&mut client, &devices, args.dev.as_deref());
    }
    let Some(wanted) = &args.dev else {
        let mut text = String::new();
        for device in &devices {
            let (mode, tos) = query(&mut client, device.index)?;
            let _ = writeln!(text, "{}: default_roce_mode {} default_roce_tos {tos}", device.name, mode_text(mode));
        }
        return Ok(text);
    };
    let device = devices.iter().find(|device| device.name == *wanted);
    let device = device.ok_or_else(|| devices::wrong_name(wanted, &devices))?;
    if wish.roce_mode.is_some() || wish.roce_tos.is_some() {
        let Wish { roce_mode, roce_tos, .. } = wish;
        let asked = ask(&mut client, Command::SetDefaults { device: device.index, roce_mode, roce_tos });
        let daemon_uid = client.daemon_credentials().ok().map(|daemon| daemon.uid);
        return match asked {
            Err(refusal) if roce_mode == Some(RoceMode::V1) => Err(lacks_v1(&refusal, &device.name, daemon_uid)),
            asked => asked.map(|_| String::new()),
        };
    }
    let (mode, tos) = query(&mut client, device.index)?;
    Ok(match wish.show {
        Some(setting) => format!("{}\n", value_text(setting, mode, tos)),
        None => format!("default_roce_mode {}\ndefault_roce_tos {tos}\n", mode_text(mode)),
    })
}

/// All devices, or the device with this name, as JSON rows.
fn as_json(client: &mut Client, devices: &[Listed], wanted: Option<&str>) -> Result<String, String> {
    let mut rows: Vec<Members> = Vec::new();
    for device in devices.iter().filter(|device| wanted.is_none_or(|name| name == device.name)) {
        let (mode, tos) = query(client, device.index)?;
        rows.push(vec![
            ("ifname", device.name.as_str().into()),
            ("default_roce_mode", mode_text(mode).into()),
            ("default_roce_tos", tos.into()),
        ]);
    }
    match wanted {
        Some(name) if rows.is_empty() => Err(devices::wrong_name(name, devices)),
        _ => Ok(iproute::json(&rows, false)),
    }
}

fn parse(words: &[String]) -> Result<Wish, String> {
    let usage = || "Usage: weft cm [DEV] [default_roce_mode v1|v2] [default_roce_tos N]".to_owned();
    let key = |word: &str| Setting::ALL.into_iter().find(|setting| setting.name() == word).ok_or_else(usage);
    let mut wish = Wish::default();
    if let [only] = words {
        wish.show = Some(key(only)?);
        return Ok(wish);
    }
    for pair in words.chunks(2) {
        let [word, value] = pair else { return Err(usage()) };
        match key(word)? {
            Setting::RoceMode => wish.roce_mode = Some(mode(value)?),
            Setting::RoceTos => wish.roce_tos = Some(tos(value)?),
        }
    }
    Ok(wish)
}

/// Parses a RoCE mode: the short form, or the text that configfs takes.
fn mode(text: &str) -> Result<RoceMode, String> {
    match text {
        "v1" | "IB/RoCE v1" | "RoCE v1" => Ok(RoceMode::V1),
        "v2" | "RoCE v2" => Ok(RoceMode::V2),
        _ => Err(format!("default_roce_mode {text}: v1 or v2 is wanted")),
    }
}

fn tos(text: &str) -> Result<u8, String> {
    let value = number(text).and_then(|n| u8::try_from(n).ok());
    value.ok_or_else(|| format!("default_roce_tos {text}: a number from 0 to 255 is wanted"))
}

/// The mode in configfs's spelling.
fn mode_text(mode: RoceMode) -> &'static str {
    match mode {
        RoceMode::V1 => "IB/RoCE v1",
        RoceMode::V2 => "RoCE v2",
    }
}

/// Explains a refusal of RoCE v1. If the daemon runs as an ordinary user, adds that only root's daemon can use v1.
fn lacks_v1(refusal: &str, device: &str, daemon_uid: Option<u32>) -> String {
    match daemon_uid {
        Some(uid) if uid != 0 => format!(
            "{refusal}\n{device} has no addresses of RoCE v1: its frames need packet sockets, and user {uid}, who the daemon \
             belongs to, may not open them; let root start the daemon (weft status), then it can be set"
        ),
        _ => refusal.to_owned(),
    }
}

fn value_text(setting: Setting, mode: RoceMode, tos: u8) -> String {
    match setting {
        Setting::RoceMode => mode_text(mode).to_owned(),
        Setting::RoceTos => tos.to_string(),
    }
}

/// Returns the text of a device's default.
pub(super) fn text_of(client: &mut Client, device: u32, setting: Setting) -> Result<String, String> {
    let (mode, tos) = query(client, device)?;
    Ok(value_text(setting, mode, tos))
}

/// Sets a device's default from its text.
pub(super) fn set(client: &mut Client, device: u32, setting: Setting, text: &str) -> Result<(), String> {
    let (roce_mode, roce_tos) = match setting {
        Setting::RoceMode => (Some(mode(text)?), None),
        Setting::RoceTos => (None, Some(tos(text)?)),
    };
    ask(client, Command::SetDefaults { device, roce_mode, roce_tos }).map(drop)
}

fn query(client: &mut Client, device: u32) -> Result<(RoceMode, u8), String> {
    match ask(client, Command::QueryDefaults { device })? {
        Reply::Defaults { roce_mode, roce_tos } => Ok((roce_mode, roce_tos)),
        _ => Err("weft cm: unexpected answer from the daemon; is it of another version?".to_owned()),
    }
}

/// Sends a command to the daemon's connection manager.
pub(super) fn ask(client: &mut Client, command: Command) -> Result<Reply, String> {
    match client.request(Request::Cm(command)).map_err(|e| failure(&e))? {
        Response::Cm(reply) => Ok(reply),
        _ => Err("unexpected answer from the daemon; is it of another version?".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(words: &[&str]) -> Result<Wish, String> {
        parse(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_words_of_configfs_are_understood() {
        let v1 = Wish { roce_mode: Some(RoceMode::V1), ..Wish::default() };
        for word in ["v1", "IB/RoCE v1"] {
            assert_eq!(wish(&["default_roce_mode", word]), Ok(v1.clone()));
        }
        let both = wish(&["default_roce_mode", "v2", "default_roce_tos", "0x68"]).unwrap();
        assert_eq!((both.roce_mode, both.roce_tos), (Some(RoceMode::V2), Some(104)));
        assert_eq!(wish(&["default_roce_tos"]).unwrap().show, Some(Setting::RoceTos));
        assert_eq!(wish(&[]), Ok(Wish::default()));
    }

    #[test]
    fn who_may_not_use_roce_v1_hears_why() {
        let refusal = "error: Invalid argument\nthe manager refuses";
        let text = lacks_v1(refusal, "rxe0", Some(1000));
        assert!(text.starts_with(refusal) && text.contains("rxe0") && text.contains("user 1000"), "{text}");
        assert!(text.contains("let root start the daemon"), "{text}");
        // A daemon that runs as root can use v1, so the refusal has another reason.
        assert_eq!(lacks_v1(refusal, "rxe0", Some(0)), refusal);
        assert_eq!(lacks_v1(refusal, "rxe0", None), refusal);
    }

    #[test]
    fn others_are_refused() {
        for words in [&["mode", "v1"][..], &["default_roce_mode", "v3"], &["default_roce_tos", "256"], &["x"]] {
            assert!(wish(words).is_err(), "{words:?}");
        }
    }
}
