//! Parameters of a test, for either side: what the user set, what is left to the test, and what the test uses.

use super::wire::{NAME, NUMBERS, Number, Request, VERSION};

/// Parameters: the numbers, then [`ID`] and [`STATIC_RATE`].
const PARAMS: usize = NUMBERS + 2;
/// Device and port.
pub const ID: usize = NUMBERS;
/// Static rate.
pub const STATIC_RATE: usize = NUMBERS + 1;

/// This side, or the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Local,
    Remote,
}

/// Both.
pub const BOTH: &[Side] = &[Side::Local, Side::Remote];

#[derive(Clone, Debug, Default)]
struct One {
    number: u32,
    text: String,
    /// The option that set it.
    option: Option<String>,
    used: bool,
    in_use: bool,
}

/// All parameters of both sides.
#[derive(Clone, Debug)]
pub struct Params([[One; PARAMS]; 2]);

impl Default for Params {
    fn default() -> Params {
        Params([(); 2].map(|()| std::array::from_fn(|_| One::default())))
    }
}

impl Params {
    fn one(&mut self, side: Side, param: usize) -> &mut One {
        &mut self.0[side as usize][param]
    }

    /// The user wants it so.
    pub fn set(&mut self, sides: &[Side], param: usize, number: u32, option: &str) {
        for side in sides {
            let one = self.one(*side, param);
            (one.number, one.option) = (number, Some(option.to_owned()));
        }
    }

    /// The same, for a text.
    pub fn set_text(&mut self, sides: &[Side], param: usize, text: &str, option: &str) -> Result<(), String> {
        if text.len() >= NAME {
            return Err(format!("{text}: too long"));
        }
        for side in sides {
            let one = self.one(*side, param);
            (one.text, one.option) = (text.to_owned(), Some(option.to_owned()));
        }
        Ok(())
    }

    /// The test uses it.
    pub fn use_both(&mut self, param: usize) {
        for side in BOTH {
            let one = self.one(*side, param);
            (one.used, one.in_use) = (true, true);
        }
    }

    /// The test uses it, and wants it so unless the user says otherwise.
    pub fn default_both(&mut self, number: Number, value: u32) {
        self.use_both(number as usize);
        for side in BOTH {
            let one = self.one(*side, number as usize);
            if one.option.is_none() {
                one.number = value;
            }
        }
    }

    /// It is so, whatever the user says.
    pub fn force_both(&mut self, number: Number, value: u32) {
        BOTH.iter().for_each(|side| self.one(*side, number as usize).number = value);
    }

    /// Whether the user set it.
    pub fn is_set(&self, side: Side, number: Number) -> bool {
        self.0[side as usize][number as usize].option.is_some()
    }

    /// A number.
    pub fn number(&self, side: Side, number: Number) -> u32 {
        self.0[side as usize][number as usize].number
    }

    /// A new test begins.
    pub fn begin(&mut self) {
        self.0.iter_mut().flatten().for_each(|one| one.in_use = false);
    }

    /// Options that the user gave and no test has used, once each.
    pub fn unused(&mut self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for one in self.0.iter_mut().flatten().filter(|one| !one.used) {
            if let Some(option) = &one.option
                && !names.contains(option)
            {
                names.push(option.clone());
            }
        }
        names
    }

    /// What is sent to a side, or kept for ours.
    pub fn request(&self, side: Side, test: usize) -> Request {
        let params = &self.0[side as usize];
        Request {
            version: VERSION,
            test: test as u16,
            numbers: std::array::from_fn(|i| params[i].number),
            id: params[ID].text.clone(),
            static_rate: params[STATIC_RATE].text.clone(),
        }
    }

    /// Numbers of both sides that the test uses; with `all`, those too that the user has not set.
    pub fn shown(&self, param: usize, all: bool) -> Option<(u32, u32)> {
        let [local, remote] = &self.0;
        let (local, remote) = (&local[param], &remote[param]);
        let in_use = local.in_use || remote.in_use;
        let set = local.option.is_some() || remote.option.is_some();
        (in_use && (all || set)).then_some((local.number, remote.number))
    }

    /// The same for texts.
    pub fn shown_text(&self, param: usize, all: bool) -> Option<(&str, &str)> {
        self.shown(param, all).map(|_| (self.0[0][param].text.as_str(), self.0[1][param].text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_asked_first() {
        let mut params = Params::default();
        params.set(&[Side::Remote], Number::Timeout as usize, 9, "-rto");
        params.set(BOTH, Number::RdAtomic as usize, 4, "-nr");
        params.default_both(Number::Timeout, 5);
        let of = |params: &Params, side| params.number(side, Number::Timeout);
        assert_eq!((of(&params, Side::Local), of(&params, Side::Remote)), (5, 9));
        assert_eq!(params.unused(), ["-nr"]);
        assert_eq!(params.request(Side::Remote, 13).number(Number::Timeout), 9);
        assert_eq!(params.shown(Number::Timeout as usize, false), Some((5, 9)));
    }
}
