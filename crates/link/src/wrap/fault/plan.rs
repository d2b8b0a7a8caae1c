//! The value of `WEFT_FAULT`: faults in packets and injected failures, with semicolons between them.

use std::fmt;

use weft_verbs::injection::Injection;

use super::spec::FaultSpec;

/// Faults of one text, and of one process at a time.
pub const FAULTS_MAX: usize = 16;

/// Bytes of one text: as many as the daemon keeps for `weft status`.
pub const FAULTS_BYTES_MAX: usize = 250;

/// Faults that a user asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultPlan {
    /// Faults in packets; each has a number, its place in the text.
    pub packets: Vec<(u32, FaultSpec)>,
    /// Failures of verbs, likewise.
    pub injections: Vec<(u32, Injection)>,
}

/// The reason why a text is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultPlanError(String);

impl fmt::Display for FaultPlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FaultPlanError {}

impl FaultPlan {
    /// Parses specifications with semicolons between them. An empty text requests nothing.
    ///
    /// # Errors
    /// The first specification that does not parse, and the reason; more than [`FAULTS_MAX`] of them, or than
    /// [`FAULTS_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<FaultPlan, FaultPlanError> {
        check_length(text)?;
        let mut plan = FaultPlan::default();
        let specs = text.split(';').map(str::trim).filter(|spec| !spec.is_empty());
        for (number, spec) in (1..).zip(specs) {
            if number as usize > FAULTS_MAX {
                return Err(FaultPlanError(format!("more than {FAULTS_MAX} faults")));
            }
            plan.add(number, spec)?;
        }
        Ok(plan)
    }

    /// Parses one specification, and adds it under a number.
    ///
    /// # Errors
    /// It does not parse, or is longer than [`FAULTS_BYTES_MAX`].
    pub fn add(&mut self, number: u32, spec: &str) -> Result<(), FaultPlanError> {
        check_length(spec)?;
        let failed = |error: &dyn fmt::Display| FaultPlanError(error.to_string());
        if Injection::is_meant_by(spec) {
            self.injections.push((number, Injection::parse(spec).map_err(|error| failed(&error))?));
        } else {
            let packets = FaultSpec::parse(spec).map_err(|error| failed(&error))?;
            if !packets.is_none() {
                self.packets.push((number, packets));
            }
        }
        Ok(())
    }

    /// Whether packets are damaged, so that data must travel in packets.
    pub fn needs_packets(&self) -> bool {
        !self.packets.is_empty()
    }
}

fn check_length(text: &str) -> Result<(), FaultPlanError> {
    if text.len() <= FAULTS_BYTES_MAX {
        return Ok(());
    }
    Err(FaultPlanError(format!("{} bytes of faults; there is room for {FAULTS_BYTES_MAX}", text.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_separate_faults_of_both_kinds() {
        let plan = FaultPlan::parse("loss=1%,seed=3; status=RETRY_EXC_ERR,from=5 ;;event=PORT_ERR,after=1s").unwrap();
        assert_eq!(plan.packets, [(1, FaultSpec::parse("loss=1%,seed=3").unwrap())]);
        let numbers: Vec<_> = plan.injections.iter().map(|(number, what)| (*number, what.text.as_str())).collect();
        assert_eq!(numbers, [(2, "status=RETRY_EXC_ERR,from=5"), (3, "event=PORT_ERR,after=1s")]);
        assert!(plan.needs_packets() && !FaultPlan::parse("event=QP_FATAL").unwrap().needs_packets());
        assert_eq!(FaultPlan::parse(" ; "), Ok(FaultPlan::default()));
        assert_eq!(FaultPlan::parse("seed=4"), Ok(FaultPlan::default()));
    }

    #[test]
    fn a_bad_part_spoils_the_whole() {
        for (text, part) in [
            ("loss=1%;status=OOPS", "status=OOPS"),
            ("event=QP_FATAL;loss=1", "loss=1:"),
            ("nonsense", "no value"),
            (&"dup=1%;".repeat(17), "more than 16"),
            (&format!("loss=1%{}", " ".repeat(FAULTS_BYTES_MAX)), "257 bytes of faults; there is room for 250"),
        ] {
            let error = FaultPlan::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
