//! Functions of real numbers, from additions, multiplications, divisions and square roots alone: those give the same
//! bits on every machine, as the system's own library of functions does not.

use core::f64::consts::{LN_2, SQRT_2};

/// Terms of a series that bring a double as close as it comes.
const TERMS: i32 = 18;

/// The natural logarithm of a positive, normal number.
pub(crate) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mut mantissa = f64::from_bits((bits & !(0x7ff << 52)) | (1023 << 52));
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)).
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..TERMS).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * s * series + f64::from(exponent) * LN_2
}

/// e to the power of `x`; zero and infinity beyond what a double holds.
pub(crate) fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    if x > 700.0 {
        return f64::INFINITY;
    }
    let exponent = (x / LN_2).round();
    let rest = x - exponent * LN_2;
    let series = (1..TERMS).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    // Between -1010 and 1010: a normal number.
    series * f64::from_bits(((exponent as i64 + 1023) as u64) << 52)
}

/// Below this share, and as far from the other end, lie the tails.
const TAIL: f64 = 0.024_25;

/// Coefficients of [`quantile`], highest power first: numerator and denominator in the middle, then in the tails.
const MIDDLE: ([f64; 6], [f64; 6]) = (
    [
        -39.696_830_286_653_76,
        220.946_098_424_520_5,
        -275.928_510_446_968_7,
        138.357_751_867_269,
        -30.664_798_066_147_16,
        2.506_628_277_459_239,
    ],
    [
        -54.476_098_798_224_06,
        161.585_836_858_040_9,
        -155.698_979_859_886_6,
        66.801_311_887_719_72,
        -13.280_681_552_885_72,
        1.0,
    ],
);
const TAILS: ([f64; 6], [f64; 5]) = (
    [
        -0.007_784_894_002_430_293,
        -0.322_396_458_041_136_5,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ],
    [0.007_784_695_709_041_462, 0.322_467_129_070_039_8, 2.445_134_137_142_996, 3.754_408_661_907_416, 1.0],
);

/// Below which number a share `p` of a normal distribution lies whose mean is 0 and whose deviation is 1. `p` lies
/// between 0 and 1, neither included. The rational approximation of P. J. Acklam: off by 1.15e-9 of the value at most.
pub(crate) fn quantile(p: f64) -> f64 {
    if p < TAIL {
        return tail(p);
    }
    if p > 1.0 - TAIL {
        return -tail(1.0 - p);
    }
    let q = p - 0.5;
    q * polynomial(&MIDDLE.0, q * q) / polynomial(&MIDDLE.1, q * q)
}

fn tail(p: f64) -> f64 {
    let q = (-2.0 * ln(p)).sqrt();
    polynomial(&TAILS.0, q) / polynomial(&TAILS.1, q)
}

/// Which share of a normal distribution lies below `z`: the inverse of [`quantile`]. Abramowitz and Stegun 26.2.17: off
/// by 7.5e-8 at most.
pub(crate) fn share_below(z: f64) -> f64 {
    /// 1 over the root of two pi.
    const PEAK: f64 = 0.398_942_280_401_432_7;
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let sum = polynomial(&[1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_53, 0.0], t);
    let above = PEAK * exp(-z * z / 2.0) * sum;
    if z < 0.0 { above } else { 1.0 - above }
}

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_agree_with_the_systems_own() {
        for x in [1e-300, 1e-9, 0.1, 0.5, 0.999_999, 1.0, 1.5, 2.0, 7.25, 1e9, 1e300] {
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "ln {x}");
        }
        for x in [-800.0, -699.0, -20.5, -1.0, -1e-9, 0.0, 0.3, 1.0, 20.25, 690.0] {
            assert!((exp(x) - x.exp()).abs() <= 1e-13 * x.exp(), "exp {x}");
        }
        assert_eq!(exp(800.0), f64::INFINITY);
    }

    #[test]
    fn a_normal_distribution_is_known_both_ways() {
        for (p, z) in [(0.5, 0.0), (0.975, 1.959_963_985), (0.01, -2.326_347_874), (0.999_999, 4.753_424_309)] {
            assert!((quantile(p) - z).abs() < 1e-7, "{p}: {}", quantile(p));
            assert!((share_below(z) - p).abs() < 1e-7, "{z}: {}", share_below(z));
        }
    }
}
