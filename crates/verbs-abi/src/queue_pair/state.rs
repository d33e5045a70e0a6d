//! The states of a queue pair (InfiniBand architecture, volume 1, section 10.3.1): how it gets from one to another, and
//! what each takes.
//!
//! | state | `ibv_modify_qp` leads here from | when work fails | a send is | a receive is | messages |
//! |---|---|---|---|---|---|
//! | `RESET` | all | `RESET` | refused | refused | no |
//! | `INIT` | `RESET`, `INIT` | `ERR` | refused | posted | no |
//! | `RTR` | `INIT` | `ERR` | refused | posted | arrive |
//! | `RTS` | `RTR`, `RTS`, `SQD`, `SQE` | `ERR` | posted | posted | arrive |
//! | `SQD` | `RTS`, `SQD` | `ERR` | posted | posted | arrive |
//! | `SQE` | none: here a failure leads to `ERR` at once | `ERR` | flushed | posted | arrive |
//! | `ERR` | all | `ERR` | flushed | flushed | no |
//!
//! After `RESET` a queue pair may be connected again, with the same number.

use core::ffi::c_int;

use crate::abi::*;
use crate::errno::Errno;

/// What becomes of a request that is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posting {
    /// The post is an error.
    Refused,
    /// It is work from now on.
    Posted,
    /// It completes at once, flushed.
    Flushed,
}

/// What becomes of a send that is posted in this state.
#[inline]
pub(super) const fn send_in(state: c_int) -> Posting {
    match state {
        IBV_QPS_RTS | IBV_QPS_SQD => Posting::Posted,
        IBV_QPS_ERR | IBV_QPS_SQE => Posting::Flushed,
        _ => Posting::Refused,
    }
}

/// What becomes of a receive that is posted in this state.
#[inline]
pub(super) const fn receive_in(state: c_int) -> Posting {
    match state {
        IBV_QPS_RESET => Posting::Refused,
        IBV_QPS_ERR => Posting::Flushed,
        _ => Posting::Posted,
    }
}

/// Whether messages may arrive.
pub(super) const fn takes_messages(state: c_int) -> bool {
    matches!(state, IBV_QPS_RTR | IBV_QPS_RTS | IBV_QPS_SQD | IBV_QPS_SQE)
}

/// The state after work has failed, where that is another one.
pub(super) const fn after_failure(state: c_int) -> Option<c_int> {
    match state {
        IBV_QPS_RESET | IBV_QPS_ERR => None,
        _ => Some(IBV_QPS_ERR),
    }
}

/// From which state to which, what must be said, and what may be said.
pub(super) struct Rule {
    from: c_int,
    to: c_int,
    needed: c_int,
    allowed: c_int,
}

const RC: c_int = IBV_QPT_RC;
const ACCESS_AND_KEY: c_int = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
const FIRST: c_int = ACCESS_AND_KEY | IBV_QP_PORT;
const PATH: c_int = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const WHILE_SENDING: c_int = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

/// The rule for a change, if there is one. Any state may become `RESET` or `ERR`.
pub(super) fn rule(kind: c_int, from: c_int, to: c_int) -> Option<Rule> {
    let reliable = |mask: c_int| if kind == RC { mask } else { 0 };
    let (needed, allowed) = match (from, to) {
        (_, IBV_QPS_RESET | IBV_QPS_ERR) => (0, IBV_QP_CUR_STATE),
        (IBV_QPS_RESET, IBV_QPS_INIT) => (FIRST, 0),
        (IBV_QPS_INIT, IBV_QPS_INIT) => (0, FIRST),
        (IBV_QPS_INIT, IBV_QPS_RTR) => {
            (PATH | reliable(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), ACCESS_AND_KEY | IBV_QP_ALT_PATH)
        }
        (IBV_QPS_RTR, IBV_QPS_RTS) => {
            let depths = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
            (IBV_QP_SQ_PSN | reliable(depths), WHILE_SENDING | reliable(IBV_QP_MIN_RNR_TIMER))
        }
        (IBV_QPS_RTS, IBV_QPS_RTS) | (IBV_QPS_SQD | IBV_QPS_SQE, IBV_QPS_RTS) => {
            (0, WHILE_SENDING | reliable(IBV_QP_MIN_RNR_TIMER))
        }
        (IBV_QPS_RTS, IBV_QPS_SQD) => (0, IBV_QP_EN_SQD_ASYNC_NOTIFY),
        (IBV_QPS_SQD, IBV_QPS_SQD) => {
            (0, PATH | FIRST | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER)
        }
        _ => return None,
    };
    Some(Rule { from, to, needed, allowed })
}

impl Rule {
    /// # Errors
    /// Something is missing, or does not belong there.
    pub(super) fn check(&self, mask: c_int) -> Result<(), Errno> {
        let missing = self.needed & !mask;
        let surplus = mask & !(self.needed | self.allowed | IBV_QP_STATE);
        if missing != 0 || surplus != 0 {
            crate::log::info(format_args!(
                "ibv_modify_qp from state {} to {}: mask {missing:#x} is missing, {surplus:#x} does not belong there",
                self.from, self.to
            ));
            return Err(Errno::INVALID);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];

    /// All pairs of states, as the table above has them.
    #[test]
    fn the_table_of_states() {
        let of_state = |state: c_int| {
            let from = (IBV_QPS_RESET..=IBV_QPS_ERR).filter(|from| rule(RC, *from, state).is_some());
            let from: Vec<&str> = from.map(|from| NAMES[from as usize]).collect();
            let failed = after_failure(state).map_or(NAMES[state as usize], |failed| NAMES[failed as usize]);
            let (name, takes) = (NAMES[state as usize], takes_messages(state));
            format!("{name}: {}; {failed}, {:?}, {:?}, {takes}", from.join(" "), send_in(state), receive_in(state))
        };
        let table: Vec<String> = (IBV_QPS_RESET..=IBV_QPS_ERR).map(of_state).collect();
        assert_eq!(
            table,
            [
                "RESET: RESET INIT RTR RTS SQD SQE ERR; RESET, Refused, Refused, false",
                "INIT: RESET INIT; ERR, Refused, Posted, false",
                "RTR: INIT; ERR, Refused, Posted, true",
                "RTS: RTR RTS SQD SQE; ERR, Posted, Posted, true",
                "SQD: RTS SQD; ERR, Posted, Posted, true",
                "SQE: ; ERR, Flushed, Posted, true",
                "ERR: RESET INIT RTR RTS SQD SQE ERR; ERR, Flushed, Flushed, false",
            ]
        );
    }

    fn check(from: c_int, to: c_int, mask: c_int) -> Result<(), Errno> {
        rule(RC, from, to).ok_or(Errno::INVALID)?.check(mask)
    }

    #[test]
    fn the_three_steps_of_a_reliable_connection() {
        let init = IBV_QP_STATE | FIRST;
        let rtr = IBV_QP_STATE | PATH | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        let depths = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        let rts = IBV_QP_STATE | IBV_QP_SQ_PSN | depths;
        assert_eq!(check(IBV_QPS_RESET, IBV_QPS_INIT, init), Ok(()));
        assert_eq!(check(IBV_QPS_INIT, IBV_QPS_RTR, rtr), Ok(()));
        assert_eq!(check(IBV_QPS_RTR, IBV_QPS_RTS, rts), Ok(()));
        assert_eq!(check(IBV_QPS_RESET, IBV_QPS_INIT, init & !IBV_QP_PORT), Err(Errno::INVALID), "missing");
        assert_eq!(check(IBV_QPS_INIT, IBV_QPS_RTR, rtr | IBV_QP_SQ_PSN), Err(Errno::INVALID), "surplus");
        assert_eq!(check(IBV_QPS_RESET, IBV_QPS_RTS, rts), Err(Errno::INVALID), "a step left out");
        for state in IBV_QPS_RESET..=IBV_QPS_ERR {
            assert_eq!(check(state, IBV_QPS_RESET, IBV_QP_STATE), Ok(()));
            assert_eq!(check(state, IBV_QPS_ERR, IBV_QP_STATE), Ok(()));
        }
        assert_eq!(check(IBV_QPS_ERR, IBV_QPS_RTS, IBV_QP_STATE), Err(Errno::INVALID));
    }

    #[test]
    fn an_unreliable_connection_has_no_depths() {
        let rule = rule(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR).unwrap();
        assert_eq!(rule.check(IBV_QP_STATE | PATH), Ok(()));
        assert_eq!(rule.check(IBV_QP_STATE | PATH | IBV_QP_MIN_RNR_TIMER), Err(Errno::INVALID));
    }
}
