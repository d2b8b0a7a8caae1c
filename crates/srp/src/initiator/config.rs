//! Configuration of an initiator, with the time limits of a lost connection as Linux's `scsi_transport_srp` has them.

use std::time::Duration;

use crate::limits::{QUEUE_SIZE_MAX, QUICK_RECONNECTS, RECONNECT_DELAYS_MAX};
use crate::wire::PortId;

/// Longest time that requests may wait for a connection before they fail or the disks are lost, as in Linux.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Times after a loss of the connection; `None` is "off".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossTimes {
    /// Time before an attempt to log in again.
    pub reconnect_delay: Option<Duration>,
    /// Time after which requests fail instead of waiting.
    pub fast_io_fail: Option<Duration>,
    /// Time after which the initiator ends.
    pub dev_loss: Option<Duration>,
}

/// Reason why a set of times makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LossTimesError {
    /// No pause between attempts.
    #[error("reconnect_delay: 0 leaves no time between attempts")]
    NoDelay,
    /// Requests would wait for ever.
    #[error("reconnect_delay, fast_io_fail_tmo and dev_loss_tmo are all off: requests would wait for ever")]
    Never,
    /// Requests would never fail before the disks are lost.
    #[error("fast_io_fail_tmo must be less than dev_loss_tmo")]
    Order,
    /// Requests would wait for too long.
    #[error("requests wait for at most {} s: choose a smaller fast_io_fail_tmo, or dev_loss_tmo if that is off", WAIT_MAX.as_secs())]
    Long,
}

impl LossTimes {
    /// Checks the times against each other.
    ///
    /// # Errors
    /// Linux refuses them, too.
    pub fn check(&self) -> Result<(), LossTimesError> {
        match (self.reconnect_delay, self.fast_io_fail, self.dev_loss) {
            (Some(Duration::ZERO), ..) => Err(LossTimesError::NoDelay),
            (None, None, None) => Err(LossTimesError::Never),
            (_, Some(fail), _) if fail > WAIT_MAX => Err(LossTimesError::Long),
            (_, Some(fail), Some(lost)) if fail >= lost => Err(LossTimesError::Order),
            (_, None, Some(lost)) if lost > WAIT_MAX => Err(LossTimesError::Long),
            _ => Ok(()),
        }
    }

    /// Returns the time before the next attempt after so many failed ones.
    pub(super) fn delay(&self, failed: u32) -> Option<Duration> {
        let times = failed.saturating_sub(QUICK_RECONNECTS).clamp(1, RECONNECT_DELAYS_MAX);
        self.reconnect_delay.map(|delay| delay.saturating_mul(times))
    }
}

/// Configuration of an initiator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitiatorConfig {
    /// This initiator.
    pub initiator: PortId,
    /// The target port.
    pub target: PortId,
    /// Commands in progress, at least one.
    pub queue_size: u16,
    /// Times after a loss of the connection.
    pub loss: LossTimes,
    /// Time for a command.
    pub command_timeout: Duration,
}

impl InitiatorConfig {
    /// Returns the number of commands within the limits.
    pub fn commands(&self) -> u16 {
        self.queue_size.clamp(1, QUEUE_SIZE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(delay: Option<u64>, fail: Option<u64>, lost: Option<u64>) -> LossTimes {
        let seconds = |count: Option<u64>| count.map(Duration::from_secs);
        LossTimes { reconnect_delay: seconds(delay), fast_io_fail: seconds(fail), dev_loss: seconds(lost) }
    }

    #[test]
    fn times_that_linux_refuses_are_refused() {
        assert_eq!(times(Some(10), Some(15), Some(600)).check(), Ok(()));
        assert_eq!(times(Some(10), None, None).check(), Ok(()));
        assert_eq!(times(None, Some(600), Some(60_000)).check(), Ok(()));
        assert_eq!(times(Some(0), Some(1), Some(2)).check(), Err(LossTimesError::NoDelay));
        assert_eq!(times(None, None, None).check(), Err(LossTimesError::Never));
        assert_eq!(times(Some(1), Some(15), Some(15)).check(), Err(LossTimesError::Order));
        assert_eq!(times(Some(1), Some(601), None).check(), Err(LossTimesError::Long));
        assert_eq!(times(Some(1), None, Some(601)).check(), Err(LossTimesError::Long));
    }

    #[test]
    fn delays_grow_after_ten_failed_attempts() {
        let delay = |failed| times(Some(2), None, None).delay(failed).map(|delay| delay.as_secs());
        assert_eq!([0, 10, 11, 13, 500].map(delay), [Some(2), Some(2), Some(2), Some(6), Some(200)]);
        assert_eq!(times(None, Some(1), None).delay(0), None);
    }
}
