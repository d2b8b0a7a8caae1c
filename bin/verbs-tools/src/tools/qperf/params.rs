//! Parameters of a test for either side: the user's values, the defaults, and which parameters the test uses.

use super::wire::{NAME, NUMBERS, Number, Request, VERSION};

/// Number of parameters: the numbers, then [`ID`] and [`STATIC_RATE`].
const PARAMS: usize = NUMBERS + 2;
/// Device and port.
pub const ID: usize = NUMBERS;
/// Static rate.
pub const STATIC_RATE: usize = NUMBERS + 1;

/// A side of the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Local,
    Remote,
}

/// Both sides.
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

    /// Sets a parameter to the user's value.
    pub fn set(&mut self, sides: &[Side], param: usize, number: u32, option: &str) {
        for side in sides {
            let one = self.one(*side, param);
            (one.number, one.option) = (number, Some(option.to_owned()));
        }
    }

    /// Sets a text parameter to the user's value.
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

    /// Marks a parameter as used by the test.
    pub fn use_both(&mut self, param: usize) {
        for side in BOTH {
            let one = self.one(*side, param);
            (one.used, one.in_use) = (true, true);
        }
    }

    /// Marks a parameter as used, with a default for sides where the user has not set it.
    pub fn default_both(&mut self, number: Number, value: u32) {
        self.use_both(number as usize);
        for side in BOTH {
            let one = self.one(*side, number as usize);
            if one.option.is_none() {
                one.number = value;
            }
        }
    }

    /// Sets a parameter regardless of the user's value.
    pub fn force_both(&mut self, number: Number, value: u32) {
        BOTH.iter().for_each(|side| self.one(*side, number as usize).number = value);
    }

    /// Whether the user set it.
    pub fn is_set(&self, side: Side, number: Number) -> bool {
        self.0[side as usize][number as usize].option.is_some()
    }

    /// The value of a number.
    pub fn number(&self, side: Side, number: Number) -> u32 {
        self.0[side as usize][number as usize].number
    }

    /// Starts a new test, which uses no parameters yet.
    pub fn begin(&mut self) {
        self.0.iter_mut().flatten().for_each(|one| one.in_use = false);
    }

    /// Options that the user set and no test has used, without duplicates.
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

    /// The request for a side: the client sends the server's and keeps its own.
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

    /// The values of a parameter on both sides, if the test uses it and the user has set it, or `all`.
    pub fn shown(&self, param: usize, all: bool) -> Option<(u32, u32)> {
        let [local, remote] = &self.0;
        let (local, remote) = (&local[param], &remote[param]);
        let in_use = local.in_use || remote.in_use;
        let set = local.option.is_some() || remote.option.is_some();
        (in_use && (all || set)).then_some((local.number, remote.number))
    }

    /// The same for a text parameter.
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
