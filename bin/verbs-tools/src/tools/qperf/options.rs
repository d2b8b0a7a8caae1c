//! Options of qperf: one word after one or two dashes, in order, each valid for the tests after it.

use super::params::{BOTH, ID, Params, STATIC_RATE, Side};
use super::view::Style;
use super::wire::Number;

/// The values of all options.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Parameters of the tests.
    pub params: Params,
    /// Output style.
    pub style: Style,
    /// The server's name.
    pub host: Option<String>,
    /// TCP port of the server.
    pub listen_port: u16,
    /// How long a client waits for a server, in seconds.
    pub wait_server: u32,
    /// Parameters to repeat tests with.
    pub loops: Vec<Loop>,
    /// Use the system's libraries.
    pub system: bool,
    /// Whether the command line has a client-only option.
    pub client: bool,
}

/// A parameter that takes a series of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    option: String,
    init: u64,
    last: u64,
    step: u64,
    multiply: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Size,
    Time,
    Level,
    Text,
}

struct Known {
    long: &'static str,
    short: &'static str,
    param: usize,
    kind: Kind,
    /// Whether each side may have its own value.
    sided: bool,
}

const fn known(long: &'static str, short: &'static str, number: Number, kind: Kind, sided: bool) -> Known {
    Known { long, short, param: number as usize, kind, sided }
}

const KNOWN: &[Known] = &[
    known("access_recv", "ar", Number::AccessRecv, Kind::Int, false),
    known("alt_port", "ap", Number::AltPort, Kind::Int, true),
    known("cpu_affinity", "ca", Number::Affinity, Kind::Int, true),
    known("flip", "f", Number::Flip, Kind::Int, false),
    known("msg_size", "m", Number::MsgSize, Kind::Size, false),
    known("mtu_size", "mt", Number::MtuSize, Kind::Size, false),
    known("no_msgs", "n", Number::NoMsgs, Kind::Int, false),
    known("cq_poll", "cp", Number::PollMode, Kind::Int, true),
    known("ip_port", "ip", Number::Port, Kind::Int, false),
    known("rd_atomic", "nr", Number::RdAtomic, Kind::Int, true),
    known("service_level", "sl", Number::Sl, Kind::Level, true),
    known("sock_buf_size", "sb", Number::SockBufSize, Kind::Size, true),
    known("src_path_bits", "sp", Number::SrcPathBits, Kind::Size, true),
    known("time", "t", Number::Time, Kind::Time, false),
    known("timeout", "to", Number::Timeout, Kind::Time, true),
    known("use_cm", "cm", Number::UseCm, Kind::Int, false),
    Known { long: "id", short: "i", param: ID, kind: Kind::Text, sided: true },
    Known { long: "static_rate", short: "sr", param: STATIC_RATE, kind: Kind::Text, sided: true },
];

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            params: Params::default(),
            style: Style::default(),
            host: None,
            listen_port: 19765,
            wait_server: 5,
            loops: Vec::new(),
            system: false,
            client: false,
        }
    }
}

impl Settings {
    /// Parses the option `name`, and its argument from `rest` if it has one.
    ///
    /// # Errors
    /// The error message.
    pub fn take(&mut self, name: &str, rest: &mut dyn Iterator<Item = String>) -> Result<(), String> {
        let mut argument = || rest.next().ok_or_else(|| format!("missing argument to {name}"));
        match name {
            // Options that servers have too.
            "--listen_port" | "-lp" => self.listen_port = int(name, &argument()?)? as u16,
            "--debug" | "-D" => {}
            "--system" => self.system = true,
            "--loc_timeout" | "-lto" => {
                let seconds = seconds(name, &argument()?)?;
                self.params.set(&[Side::Local], Number::Timeout as usize, seconds, name);
            }
            _ => {
                self.client = true;
                self.client_option(name, &mut argument)?;
            }
        }
        Ok(())
    }

    fn client_option(
        &mut self,
        name: &str,
        argument: &mut dyn FnMut() -> Result<String, String>,
    ) -> Result<(), String> {
        match name {
            "--host" | "-H" => self.host = Some(argument()?),
            "--precision" | "-e" => self.style.precision = int(name, &argument()?)? as usize,
            "--wait_server" | "-ws" => self.wait_server = seconds(name, &argument()?)?,
            "--use_bits_per_sec" | "-ub" => self.style.bits = true,
            "--unify_nodes" | "-un" => self.style.unify_nodes = true,
            "--unify_units" | "-uu" => self.style.unify_units = true,
            "--loop" | "-oo" => self.loops.push(Loop::parse(name, &argument()?)?),
            _ if self.verbose(name) => {}
            _ => {
                let (known, sides, one) =
                    find(name).ok_or_else(|| format!("{name}: bad option; try: qperf --help options"))?;
                let text = if one { "1".to_owned() } else { argument()? };
                self.parameter(known, sides, name, &text)?;
            }
        }
        Ok(())
    }

    fn parameter(&mut self, known: &Known, sides: &[Side], name: &str, text: &str) -> Result<(), String> {
        let number = match known.kind {
            Kind::Text => return self.params.set_text(sides, known.param, text, name),
            Kind::Int => int(name, text)?,
            Kind::Level => match int(name, text)? {
                level @ 0..16 => level,
                level => return Err(format!("service level must be between 0 and 15: {level} given")),
            },
            Kind::Size => size(name, text)? as u32,
            Kind::Time => seconds(name, text)?,
        };
        self.params.set(sides, known.param, number, name);
        Ok(())
    }

    /// Applies `-v`, `-vs`, `-vvs` ...; returns whether `name` is one of them.
    fn verbose(&mut self, name: &str) -> bool {
        let style = &mut self.style;
        let (level, what) = match name {
            "--verbose" | "-v" => (1, "cstu"),
            "--verbose_more" | "-vv" => (2, "cstu"),
            "--verbose_conf" | "-vc" => (1, "c"),
            "--verbose_stat" | "-vs" => (1, "s"),
            "--verbose_time" | "-vt" => (1, "t"),
            "--verbose_used" | "-vu" => (1, "u"),
            "--verbose_more_conf" | "-vvc" => (2, "c"),
            "--verbose_more_stat" | "-vvs" => (2, "s"),
            "--verbose_more_time" | "-vvt" => (2, "t"),
            "--verbose_more_used" | "-vvu" => (2, "u"),
            _ => return false,
        };
        for (letter, to) in
            [('c', &mut style.conf), ('s', &mut style.stat), ('t', &mut style.time), ('u', &mut style.used)]
        {
            if what.contains(letter) {
                *to = (*to).max(level);
            }
        }
        true
    }

    /// Sets the parameter of a loop.
    ///
    /// # Errors
    /// The parameter cannot have this value.
    pub fn set_loop(&mut self, turn: &Loop, value: u64) -> Result<(), String> {
        let (known, sides, _) = find(&turn.option).ok_or_else(|| format!("{}: no such variable", turn.option))?;
        self.parameter(known, sides, &turn.option, &value.to_string())
    }
}

impl Loop {
    /// Parses `msg_size:1:64K:*2`: a parameter, its first and last values, and the increment or factor.
    fn parse(option: &str, text: &str) -> Result<Loop, String> {
        let mut parts = text.split(':').map(Some).chain(std::iter::repeat(None));
        let mut part = || parts.next().flatten().filter(|part| !part.is_empty());
        let (name, init, last, step) = (part().unwrap_or("msg_size"), part(), part(), part());
        let option_of = ["--", "-"].map(|dash| format!("{dash}{name}")).into_iter().find(|n| find(n).is_some());
        let variable = option_of.ok_or_else(|| format!("{option}: {name}: no such variable"))?;
        let multiply = step.is_some_and(|step| step.starts_with('*'));
        let step = match step {
            Some(step) => size(option, step.trim_start_matches('*'))?,
            None => 0,
        };
        let init = init.map_or(Ok(u64::from(multiply)), |init| size(option, init))?;
        let last = size(option, last.ok_or_else(|| format!("{option}: must specify limit"))?)?;
        if step < 1 + u64::from(multiply) || (multiply && init == 0) {
            return Err(format!("{option}: {text}: increment must be positive"));
        }
        Ok(Loop { option: variable, init, last, step, multiply })
    }

    /// The values in order.
    pub fn values(&self) -> impl Iterator<Item = u64> {
        let (last, step, multiply) = (self.last, self.step, self.multiply);
        let next = move |value: &u64| if multiply { value.checked_mul(step) } else { value.checked_add(step) };
        std::iter::successors(Some(self.init), next).take_while(move |value| *value <= last)
    }
}

/// The parameter of an option, the sides that it applies to, and whether the option alone sets it to 1.
fn find(name: &str) -> Option<(&'static Known, &'static [Side], bool)> {
    const SIDES: [(&str, &str, &[Side]); 3] =
        [("", "", BOTH), ("loc_", "l", &[Side::Local]), ("rem_", "r", &[Side::Remote])];
    for known in KNOWN {
        for (long, short, sides) in SIDES {
            if !long.is_empty() && !known.sided {
                continue;
            }
            if name == format!("--{long}{}", known.long) || name == format!("-{short}{}", known.short) {
                return Some((known, sides, false));
            }
            let one = matches!(known.short, "ar" | "cm" | "f" | "cp");
            if one && name == format!("-{short}{}1", known.short) {
                return Some((known, sides, true));
            }
        }
    }
    None
}

fn int(name: &str, text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(n) if n < 0 => Err(format!("{name} requires a non-negative number")),
        Ok(n) => u32::try_from(n).map_err(|_| format!("bad argument: {text}")),
        Err(_) => Err(format!("bad argument: {text}")),
    }
}

/// Parses a number and a unit from a table.
fn scaled(text: &str, units: &[(&[&str], u64)]) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = units.iter().find(|(names, _)| names.contains(&unit))?.1;
    Some(number.parse::<f64>().ok()? * factor as f64)
}

fn size(name: &str, text: &str) -> Result<u64, String> {
    let units: &[(&[&str], u64)] = &[
        (&[""], 1),
        (&["kb", "k"], 1000),
        (&["mb", "m"], 1_000_000),
        (&["gb", "g"], 1_000_000_000),
        (&["kib", "K"], 1 << 10),
        (&["mib", "M"], 1 << 20),
        (&["gib", "G"], 1 << 30),
    ];
    match scaled(text, units) {
        Some(n) if n < 0. => Err(format!("{name} requires a non-negative number")),
        Some(n) => Ok(n as u64),
        None => Err(format!("{name}: bad size: {text}")),
    }
}

fn seconds(name: &str, text: &str) -> Result<u32, String> {
    let units: &[(&[&str], u64)] =
        &[(&["", "s", "S"], 1), (&["m", "M"], 60), (&["h", "H"], 3600), (&["d", "D"], 86400)];
    match scaled(text, units) {
        Some(n) if n < 0. => Err(format!("{name} requires a non-negative number")),
        Some(n) => Ok(n as u32),
        None => Err(format!("bad argument: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(line: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        let mut words = line.split(' ').map(str::to_owned);
        while let Some(word) = words.next() {
            settings.take(&word, &mut words)?;
        }
        Ok(settings)
    }

    #[test]
    fn options_are_for_one_side_or_both() {
        let settings = take("-m 64K --rem_timeout 2m -cm1 -t 5 -lcp 1 -i rxe0:1").unwrap();
        let of = |side, number| settings.params.number(side, number);
        assert_eq!(of(Side::Remote, Number::MsgSize), 65536);
        assert_eq!((of(Side::Local, Number::Timeout), of(Side::Remote, Number::Timeout)), (0, 120));
        assert_eq!((of(Side::Local, Number::PollMode), of(Side::Remote, Number::PollMode)), (1, 0));
        assert_eq!((of(Side::Local, Number::UseCm), of(Side::Local, Number::Time)), (1, 5));
        assert_eq!(settings.params.request(Side::Local, 0).id, "rxe0:1");
        for wrong in ["-x", "-m", "-m 1q", "-n -1", "-sl 16", "--loc_time 3"] {
            assert!(take(wrong).is_err(), "{wrong}");
        }
        assert!(!take("-lp 1234 -lto 3").unwrap().client);
    }

    #[test]
    fn a_loop_adds_or_multiplies() {
        let values = |text| Loop::parse("-oo", text).unwrap().values().collect::<Vec<_>>();
        assert_eq!(values("msg_size:1:64:*4"), [1, 4, 16, 64]);
        assert_eq!(values(":1K:4K:1K"), [1024, 2048, 3072, 4096]);
        for wrong in ["nosuch:1:2:1", "msg_size:1", "msg_size:0:5:*2", "msg_size:1:5:*1", "msg_size:1:5"] {
            assert!(Loop::parse("-oo", wrong).is_err(), "{wrong}");
        }
    }
}
