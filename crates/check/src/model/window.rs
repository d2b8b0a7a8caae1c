//! Memory windows.

use super::ids::{Handle, Site};
use super::objects::Kind;
use super::region::MW_BIND;
use super::request::Binding;
use super::state::Model;
use crate::rules;

const ZERO_BASED: u32 = 32;

impl Model {
    /// Reports a bind that the device will refuse.
    pub fn check_binding(&mut self, qp: Handle, binding: &Binding, site: Site) {
        self.check_alive(Kind::Mw, binding.window, site);
        if binding.region == 0 || binding.length == 0 {
            return;
        }
        self.check_alive(Kind::Mr, binding.region, site);
        let Some(mr) = self.mrs.get(&binding.region) else { return };
        let (window_pd, qp_pd) = (self.mws.get(&binding.window).map(|mw| mw.pd), self.qps.get(&qp).map(|qp| qp.pd));
        let is_foreign = [window_pd, qp_pd].into_iter().flatten().any(|pd| !self.same_pd(pd, mr.pd));
        let offset = binding.address.checked_sub(mr.iova);
        let is_inside =
            offset.and_then(|offset| offset.checked_add(binding.length)).is_some_and(|end| end <= mr.length);
        let (rule, reason) = if mr.access & MW_BIND == 0 {
            (&rules::WINDOW_WITHOUT_ACCESS, format!("whose access flags {:#x} lack memory-window bind", mr.access))
        } else if is_foreign {
            (&rules::WINDOW_WRONG_PD, "whose protection domain is not the window's and the queue pair's".to_owned())
        } else if !is_inside && mr.access & ZERO_BASED == 0 {
            let (address, length) = (binding.address, binding.length);
            (&rules::WINDOW_OUT_OF_RANGE, format!("which does not cover {length} bytes at {address:#x}"))
        } else {
            return;
        };
        let history = vec![("registered".to_owned(), mr.created)];
        let message = format!("the program binds a window to {}, {reason}", self.name(Kind::Mr, binding.region));
        self.find_with(rule, site, self.name(Kind::Mw, binding.window), message, history);
    }
}
