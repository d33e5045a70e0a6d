//! The test networks of the cases: how many links of which rate join the hosts, and what a switch does to frames.

use std::str::FromStr;
use std::time::Duration;

use weft_command::failure::Failure;
use weft_lab::{BitsPerSecond, Plan, Shape};

/// How many links join two hosts, with a rate of their own where it is not that of the other cases: `4`, `1x10G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) links: u8,
    pub(crate) rate: Option<BitsPerSecond>,
}

/// The most links that join two hosts.
const MOST: u8 = 8;

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (links, rate) = text.split_once('x').map_or((text, None), |(links, rate)| (links, Some(rate)));
        let links: u8 = links.parse().map_err(|_| format!("{text:?} is no number of links, such as 4 or 1x10G"))?;
        if !(1..=MOST).contains(&links) {
            return Err(format!("{links} is not in 1..={MOST}"));
        }
        Ok(Self { links, rate: rate.map(str::parse).transpose()? })
    }
}

/// The network of a case, and each of the ways in which a switch treats its frames.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) plan: Plan,
    /// `None`: it does nothing to them, and there is no switch.
    pub(crate) shapes: Vec<Option<Shape>>,
}

impl Network {
    /// The network with this number of links, of these rates: one of all, or one of each. `emulate`: what is done to
    /// frames, one after the other; nothing if it is empty.
    /// `delay_beside`: as for [`cables`].
    pub(crate) fn new(
        number: Number,
        rates: &[BitsPerSecond],
        emulate: &[Shape],
        delay_beside: Option<Duration>,
    ) -> Result<Self, Failure> {
        let plan = plan(number, rates)?;
        let shapes = shapes(&plan, emulate)?;
        let beside = Shape { delay: delay_beside.unwrap_or_default(), ..Shape::default() };
        beside.check().map_err(|error| Failure::Usage(format!("--beside-delay: {error}")))?;
        Ok(Self { plan, shapes })
    }
}

fn plan(number: Number, rates: &[BitsPerSecond]) -> Result<Plan, Failure> {
    let links = usize::from(number.links);
    let plan = match (number.rate, rates) {
        (Some(one), _) | (None, &[one]) => Plan { links, rate: Some(one), ..Plan::default() },
        (None, _) if rates.len() == links => Plan { links, rates: rates.to_vec(), ..Plan::default() },
        _ => {
            let words = format!("--rate names {} rates, for {links} links", rates.len());
            return Err(Failure::Usage(words));
        }
    };
    plan.check().map(|()| plan).map_err(|error| Failure::Usage(error.to_string()))
}

fn shapes(plan: &Plan, emulate: &[Shape]) -> Result<Vec<Option<Shape>>, Failure> {
    if emulate.is_empty() {
        return Ok(vec![None]);
    }
    if !plan.rates.is_empty() {
        return Err(Failure::Usage("--emulate: the links are alike, and --rate names one rate".into()));
    }
    let whole = |shape: &Shape| Shape { rate: plan.rate, ..shape.clone() };
    let shapes: Vec<_> = emulate.iter().map(whole).collect();
    shapes.iter().try_for_each(Shape::check).map_err(|error| Failure::Usage(format!("--emulate: {error}")))?;
    Ok(shapes.into_iter().map(Some).collect())
}

/// At whose cables a switch does what to frames: at those of all hosts alike. Where the stream beside has a delay of
/// its own, the first host and the third, which send, have cables with the delays, and the second host's cable has the
/// rest: both streams go through its queue.
pub(crate) fn cables(shape: &Shape, delay_beside: Option<Duration>) -> Vec<(Option<usize>, Shape)> {
    let Some(delay) = delay_beside else { return vec![(None, shape.clone())] };
    let own = Shape { delay: shape.delay, jitter: shape.jitter, ..Shape::default() };
    let shared = Shape { delay: Duration::ZERO, jitter: Duration::ZERO, ..shape.clone() };
    let beside = Shape { delay, ..own.clone() };
    vec![(Some(0), own), (Some(1), shared), (Some(2), beside)]
}

/// The least that any of these cables delays frames by: what comes late by a part of it has lost its meaning. Zero if
/// none of them delays any.
pub(crate) fn least_delay(shape: &Shape, delay_beside: Option<Duration>) -> Duration {
    let delays = cables(shape, delay_beside).into_iter().map(|(_, shape)| shape.delay);
    delays.filter(|delay| !delay.is_zero()).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: BitsPerSecond = BitsPerSecond(1_000_000_000);
    const TEN: BitsPerSecond = BitsPerSecond(10_000_000_000);

    #[test]
    fn a_number_of_links_may_have_a_rate_of_its_own() {
        assert_eq!("4".parse(), Ok(Number { links: 4, rate: None }));
        assert_eq!("1x10G".parse(), Ok(Number { links: 1, rate: Some(TEN) }));
        for (wrong, why) in [("9", "9 is not in 1..=8"), ("0x1G", "0 is not in"), ("x1G", "4 or 1x10G"), ("1x", "")] {
            let error = wrong.parse::<Number>().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn the_rate_of_a_number_is_that_of_its_links_and_of_what_is_done_to_their_frames() {
        let emulate = [Shape { delay: Duration::from_millis(1), ..Shape::default() }];
        for (rate, wanted) in [(None, GIGABIT), (Some(TEN), TEN)] {
            let network = Network::new(Number { links: 2, rate }, &[GIGABIT], &emulate, None).unwrap();
            assert_eq!((network.plan.links, network.plan.rate), (2, Some(wanted)));
            let [Some(shape)] = &network.shapes[..] else { panic!("{network:?}") };
            assert_eq!((shape.rate, shape.delay), (Some(wanted), Duration::from_millis(1)));
        }
        let number = Number { links: 2, rate: None };
        assert_eq!(Network::new(number, &[GIGABIT, TEN], &[], None).unwrap().plan.rates, [GIGABIT, TEN]);
        assert!(Network::new(number, &[GIGABIT; 3], &[], None).is_err());
        assert!(Network::new(number, &[GIGABIT, TEN], &emulate, None).is_err());
        // Before there is a network of which the one with the stream beside is made.
        let far = Network::new(number, &[GIGABIT], &emulate, Some(Duration::from_secs(20)));
        assert!(matches!(far, Err(Failure::Usage(words)) if words.contains("--beside-delay: a delay of 20s")));
    }

    #[test]
    fn what_both_streams_share_is_at_the_host_that_receives_them() {
        let delay = Duration::from_millis;
        let shape = Shape { rate: Some(GIGABIT), queue_bytes: Some(66_000), delay: delay(5), ..Shape::default() };
        assert_eq!(cables(&shape, None), [(None, shape.clone())]);
        let of = |delay| Shape { delay, ..Shape::default() };
        let shared = Shape { delay: Duration::ZERO, ..shape.clone() };
        let wanted = [(Some(0), of(delay(5))), (Some(1), shared), (Some(2), of(delay(25)))];
        assert_eq!(cables(&shape, Some(delay(25))), wanted);
        let least = |beside| least_delay(&shape, beside);
        assert_eq!([None, Some(delay(25)), Some(delay(2))].map(least), [delay(5), delay(5), delay(2)]);
        assert_eq!(least_delay(&Shape::default(), None), Duration::ZERO);
    }
}
