//! The combined results of both sides.

use super::clocks::{IDLE, IOWAIT, IRQ, KERNEL, NICE, REAL, SOFTIRQ, STEAL, USER};
use super::params::Params;
use super::view::{View, When};
use super::wire::{CLOCKS, Number, Stat};

/// The quantity that a test measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    Latency,
    Bandwidth,
    BandwidthBoth,
}

/// A side's processor usage.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    real: f64,
    cpu: f64,
    total: f64,
    user: f64,
    intr: f64,
    kernel: f64,
    iowait: f64,
}

impl Usage {
    fn of(stat: &Stat) -> Usage {
        let spent = |clock: usize| stat.end[clock].wrapping_sub(stat.start[clock]) as f64;
        let (real, ticks) = (spent(REAL), f64::from(stat.ticks));
        if real == 0. || ticks == 0. {
            return Usage::default();
        }
        let busy: f64 = (0..CLOCKS).filter(|clock| ![REAL, IDLE].contains(clock)).map(spent).sum();
        let user = (spent(USER) + spent(NICE)) / real;
        let intr = (spent(IRQ) + spent(SOFTIRQ)) / real;
        let kernel = (spent(KERNEL) + spent(STEAL)) / real;
        let iowait = spent(IOWAIT) / real;
        let total = user + intr + kernel + iowait;
        Usage { real: real / ticks, cpu: busy / ticks, total, user, intr, kernel, iowait }
    }
}

/// Results of both sides.
#[derive(Clone, Debug)]
pub struct Results {
    local: Stat,
    remote: Stat,
    usage: [Usage; 2],
}

impl Results {
    /// Combines the counts of each side, for itself and for the other side.
    pub fn new(mut local: Stat, mut remote: Stat) -> Results {
        local.sent.merge(remote.remote_sent);
        local.received.merge(remote.remote_received);
        remote.sent.merge(local.remote_sent);
        remote.received.merge(local.remote_received);
        Results { local, remote, usage: [Usage::of(&local), Usage::of(&remote)] }
    }

    fn latency(&self) -> f64 {
        match self.local.received.msgs + self.remote.received.msgs {
            0 => 0.,
            msgs => self.usage[0].real / msgs as f64,
        }
    }

    /// The rate per second: one side's count over its entry of `times`, or both counts over the average time.
    fn per_second(&self, local: u64, remote: u64, times: [f64; 2]) -> f64 {
        let [ours, theirs] = self.usage.map(|usage| usage.real);
        if ours == 0. || theirs == 0. {
            return 0.;
        }
        match (local, remote) {
            (local, 0) => local as f64 / times[0],
            (0, remote) => remote as f64 / times[1],
            (local, remote) => (local + remote) as f64 / ((ours + theirs) / 2.),
        }
    }

    fn message_rate(&self) -> f64 {
        let [ours, theirs] = self.usage.map(|usage| usage.real);
        // Messages that one side received are timed by the sending side.
        self.per_second(self.local.received.msgs, self.remote.received.msgs, [theirs, ours])
    }

    fn send_band(&self) -> f64 {
        let times = self.usage.map(|usage| usage.real);
        self.per_second(self.local.sent.bytes, self.remote.sent.bytes, times)
    }

    fn recv_band(&self) -> f64 {
        let times = self.usage.map(|usage| usage.real);
        self.per_second(self.local.received.bytes, self.remote.received.bytes, times)
    }

    /// Processor seconds per gigabyte for sending and for receiving, if each side does only one of them.
    fn costs(&self) -> (f64, f64) {
        let one_way = |bytes: [u64; 3]| bytes[0] != 0 && bytes[1] == 0 && bytes[2] == 0;
        let cost = |side: usize, bytes: u64| self.usage[side].cpu * 1e9 / bytes as f64;
        let (ls, lr) = (self.local.sent.bytes, self.local.received.bytes);
        let (rs, rr) = (self.remote.sent.bytes, self.remote.received.bytes);
        let send = match () {
            () if one_way([ls, lr, rs]) => cost(0, ls),
            () if one_way([rs, rr, ls]) => cost(1, rs),
            () => 0.,
        };
        let recv = match () {
            () if one_way([rr, rs, lr]) => cost(1, rr),
            () if one_way([lr, ls, rr]) => cost(0, lr),
            () => 0.,
        };
        (send, recv)
    }

    /// Shows the measured quantity and the details that the options ask for.
    pub fn show(&self, view: &mut View<'_>, measure: Measure, params: &Params, used: u8, unify_nodes: bool) {
        match measure {
            Measure::Latency => view.time(When::Always, "latency", self.latency()),
            Measure::Bandwidth => view.band(When::Always, "bw", self.recv_band()),
            Measure::BandwidthBoth => {
                view.band(When::Always, "send_bw", self.send_band());
                view.band(When::Always, "recv_bw", self.recv_band());
            }
        }
        view.rate(When::Stat, "msg_rate", self.message_rate());
        show_used(view, params, used);
        let (send_cost, recv_cost) = self.costs();
        view.cost(When::Time, "send_cost", send_cost);
        view.cost(When::Time, "recv_cost", recv_cost);
        self.show_sides(view, unify_nodes);
    }

    fn show_sides(&self, view: &mut View<'_>, unify_nodes: bool) {
        let (ls, lr) = (self.local.sent.bytes != 0, self.local.received.bytes != 0);
        let (rs, rr) = (self.remote.sent.bytes != 0, self.remote.received.bytes != 0);
        let sides = match (ls, lr, rs, rr) {
            (true, false, false, true) if !unify_nodes => Some([(0, &self.local), (1, &self.remote)]),
            (false, true, true, false) if !unify_nodes => Some([(1, &self.remote), (0, &self.local)]),
            _ => None,
        };
        let Some([(send, sender), (recv, receiver)]) = sides else {
            for (name, side, stat) in [("loc", 0, &self.local), ("rem", 1, &self.remote)] {
                show_usage(view, name, &self.usage[side]);
                view.count(When::StatMore, &format!("{name}_send_errors"), stat.sent.errs);
                view.count(When::StatMore, &format!("{name}_recv_errors"), stat.received.errs);
                view.size(When::StatMore, &format!("{name}_send_bytes"), stat.sent.bytes);
                view.size(When::StatMore, &format!("{name}_recv_bytes"), stat.received.bytes);
                view.count(When::StatMore, &format!("{name}_send_msgs"), stat.sent.msgs);
                view.count(When::StatMore, &format!("{name}_recv_msgs"), stat.received.msgs);
                view.count(When::StatMore, &format!("{name}_max_cqe"), stat.max_cqes.into());
            }
            return;
        };
        for (name, usage, count, max_cqes) in [
            ("send", &self.usage[send], &sender.sent, sender.max_cqes),
            ("recv", &self.usage[recv], &receiver.received, receiver.max_cqes),
        ] {
            show_usage(view, name, usage);
            view.count(When::StatMore, &format!("{name}_errors"), count.errs);
            view.size(When::StatMore, &format!("{name}_bytes"), count.bytes);
            view.count(When::StatMore, &format!("{name}_msgs"), count.msgs);
            view.count(When::StatMore, &format!("{name}_max_cqe"), max_cqes.into());
        }
    }
}

fn show_usage(view: &mut View<'_>, name: &str, usage: &Usage) {
    view.cpus(When::Time, &format!("{name}_cpus_used"), usage.total);
    view.cpus(When::TimeMore, &format!("{name}_cpus_user"), usage.user);
    view.cpus(When::TimeMore, &format!("{name}_cpus_intr"), usage.intr);
    view.cpus(When::TimeMore, &format!("{name}_cpus_kernel"), usage.kernel);
    view.cpus(When::TimeMore, &format!("{name}_cpus_iowait"), usage.iowait);
    view.time(When::TimeMore, &format!("{name}_real_time"), usage.real);
    view.time(When::TimeMore, &format!("{name}_cpu_time"), usage.cpu);
}

/// Shows the parameters, sorted by name.
fn show_used(view: &mut View<'_>, params: &Params, used: u8) {
    const NAMES: [(&str, Number); 16] = [
        ("access_recv", Number::AccessRecv),
        ("affinity", Number::Affinity),
        ("alt_port", Number::AltPort),
        ("flip", Number::Flip),
        ("msg_size", Number::MsgSize),
        ("mtu_size", Number::MtuSize),
        ("no_msgs", Number::NoMsgs),
        ("poll_mode", Number::PollMode),
        ("port", Number::Port),
        ("rd_atomic", Number::RdAtomic),
        ("service_level", Number::Sl),
        ("sock_buf_size", Number::SockBufSize),
        ("src_path_bits", Number::SrcPathBits),
        ("time", Number::Time),
        ("timeout", Number::Timeout),
        ("use_cm", Number::UseCm),
    ];
    for (name, number) in NAMES {
        if number == Number::MsgSize
            && let Some((local, remote)) = params.shown_text(super::params::ID, used >= 2).filter(|_| used > 0)
        {
            show_id(view, local, remote);
        }
        let Some((local, remote)) = params.shown(number as usize, used >= 2).filter(|_| used > 0) else { continue };
        let mut show = |name: &str, value: u32| match number {
            Number::MsgSize | Number::MtuSize | Number::SockBufSize | Number::SrcPathBits => {
                view.size(When::Used, name, value.into());
            }
            Number::Time | Number::Timeout => view.time(When::Used, name, value.into()),
            _ => view.count(When::Used, name, value.into()),
        };
        match local == remote {
            true => show(name, local),
            false => [("loc", local), ("rem", remote)].iter().for_each(|(s, v)| show(&format!("{s}_{name}"), *v)),
        }
    }
}

fn show_id(view: &mut View<'_>, local: &str, remote: &str) {
    let rows = match local == remote {
        true => vec![("id", local)],
        false => vec![("loc_id", local), ("rem_id", remote)],
    };
    rows.iter().filter(|(_, id)| !id.is_empty()).for_each(|(name, id)| view.text(name, id));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::qperf::view::Style;
    use crate::tools::qperf::wire::Count;

    fn stat(ticks: u64) -> Stat {
        let mut stat = Stat { ticks: 100, ..Stat::default() };
        stat.end[REAL] = ticks;
        stat
    }

    #[test]
    fn what_one_sent_the_other_received() {
        let mut local = stat(200);
        local.sent = Count { bytes: 4_000_000, msgs: 4, errs: 0 };
        let mut remote = stat(200);
        remote.received = local.sent;
        let results = Results::new(local, remote);
        assert_eq!((results.send_band(), results.recv_band(), results.message_rate()), (2e6, 2e6, 2.));
        let style = Style::default();
        let mut view = View::new(&style);
        results.show(&mut view, Measure::BandwidthBoth, &Params::default(), 0, false);
        assert_eq!(view.finish(), "    send_bw  =  2 MB/sec\n    recv_bw  =  2 MB/sec\n");
    }

    #[test]
    fn latency_is_the_time_of_a_message_one_way() {
        let mut local = stat(200);
        local.received.msgs = 50_000;
        let mut remote = stat(200);
        remote.received.msgs = 50_000;
        assert_eq!(Results::new(local, remote).latency(), 20e-6);
        assert_eq!(Results::new(stat(0), stat(0)).latency(), 0.);
    }
}
