//! [`ControlledQueue`]: the theorem of \[WA\] §IV-C in numbers.
//!
//! With one step of delay in (11), which is what the paper's matrix A says (taken as written, (9)–(11) give
//! q(n+1) = q0 + π(n+1) at once, and there is nothing to be stable):
//!
//! ```text
//!   w(n+1) = b(n) − g·(q(n) − q0) + π          q(n+1) = q(n) + w(n) − b(n)
//!   A = [ B  * ]      B = [ 0 −g ]    λ² − λ + g = 0          C: companion matrix of α
//!       [ 0  C ]          [ 1  1 ]    λ^p − α₁·λ^(p−1) − … − α_p = 0
//! ```
//!
//! The figures are for people: floats, and no part of any run's identity.

use num_complex::Complex64;
use sim::Random;

/// Verdict by the eigenvalues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// All within the unit circle: every deviation dies away.
    Stable,
    /// The largest on the unit circle (neutral or marginal stability): a deviation stays, and noise adds up.
    Neutral,
    /// One outside: a deviation grows without end.
    Unstable,
}

impl Stability {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Neutral => "neutrally stable",
            Self::Unstable => "unstable",
        }
    }
}

/// A controlled queue with given coefficients.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlledQueue {
    /// g; the paper's is 1.
    pub gain: f64,
    /// α₁…α_p.
    pub alphas: Vec<f64>,
    /// β₁…β_q; β₀ is one.
    pub betas: Vec<f64>,
}

/// Distance from the unit circle that counts as on it.
const ON_CIRCLE: f64 = 1e-6;

/// A queue so far from its aim is not followed further.
const FAR: f64 = 1e12;

impl ControlledQueue {
    /// The two eigenvalues of B, then those of C.
    #[must_use]
    pub fn eigenvalues(&self) -> (Vec<Complex64>, Vec<Complex64>) {
        let d = 1.0 - 4.0 * self.gain;
        let b = if d >= 0.0 {
            vec![
                Complex64::new(f64::midpoint(1.0, d.sqrt()), 0.0),
                Complex64::new((1.0 - d.sqrt()) / 2.0, 0.0),
            ]
        } else {
            let im = (-d).sqrt() / 2.0;
            vec![Complex64::new(0.5, im), Complex64::new(0.5, -im)]
        };
        (b, roots(&self.alphas))
    }

    /// Verdict about the whole.
    #[must_use]
    pub fn stability(&self) -> Stability {
        let (b, c) = self.eigenvalues();
        let largest = b.iter().chain(&c).map(|value| value.norm()).fold(0.0, f64::max);
        if largest < 1.0 - ON_CIRCLE {
            Stability::Stable
        } else if largest <= 1.0 + ON_CIRCLE {
            Stability::Neutral
        } else {
            Stability::Unstable
        }
    }

    /// Σ|αᵢ|, which the theorem wants below one.
    #[must_use]
    pub fn alpha_sum(&self) -> f64 {
        self.alphas.iter().map(|a| a.abs()).sum()
    }

    /// q(n) − q0 for `steps` steps from q(0) − q0 = `start`, in packets; ϕ has deviation
    /// `bandwidth_noise`, π `report_noise`.
    ///
    /// It ends early when the queue has left all bounds. Nothing is clipped, as in the theorem.
    #[must_use]
    pub fn queue(&self, steps: usize, start: f64, noise: (f64, f64), seed: u64) -> Vec<f64> {
        let (bandwidth_noise, report_noise) = noise;
        let mut random = Random::new(seed);
        // Deviations from b: w(0) = b.
        let (mut w, mut q) = (0.0f64, start);
        let (mut phi, mut noises) = (vec![0.0; self.alphas.len()], vec![0.0; self.betas.len()]);
        let mut out = Vec::with_capacity(steps);
        for _ in 0..steps {
            out.push(q);
            if q.abs() > FAR {
                break;
            }
            let new = bandwidth_noise * normal(&mut random);
            let sum = |c: &[f64], past: &[f64]| c.iter().zip(past).map(|(c, v)| c * v).sum::<f64>();
            let b = new + sum(&self.alphas, &phi) + sum(&self.betas, &noises);
            let next = b - self.gain * q + report_noise * normal(&mut random);
            (w, q) = (next, q + w - b);
            push(&mut phi, b);
            push(&mut noises, new);
        }
        out
    }
}

fn push(past: &mut [f64], value: f64) {
    let by = usize::from(!past.is_empty());
    past.rotate_right(by);
    if let Some(first) = past.first_mut() {
        *first = value;
    }
}

/// Nearly normal: the sum of twelve evenly distributed numbers.
fn normal(random: &mut Random) -> f64 {
    let unit = |word: u64| (word >> 11) as f64 / (1u64 << 53) as f64;
    (0..12).map(|_| unit(random.word())).sum::<f64>() - 6.0
}

/// The roots of λ^p − α₁·λ^(p−1) − … − α_p, all at once (Weierstrass, Durand and Kerner).
fn roots(alphas: &[f64]) -> Vec<Complex64> {
    let p = alphas.len();
    let value = |x: Complex64| alphas.iter().fold(Complex64::new(1.0, 0.0), |sum, a| sum * x - a);
    let radius = 1.0 + alphas.iter().map(|a| a.abs()).fold(0.0, f64::max);
    let mut roots: Vec<Complex64> = (0..p)
        .map(|k| {
            let angle = 0.4 + core::f64::consts::TAU * k as f64 / p as f64;
            Complex64::new(radius * angle.cos(), radius * angle.sin())
        })
        .collect();
    for _ in 0..2_000 {
        let mut moved = 0.0f64;
        for k in 0..p {
            let at = roots[k];
            let others = roots.iter().enumerate().filter(|(i, _)| *i != k);
            let product = others.fold(Complex64::new(1.0, 0.0), |product, (_, r)| product * (at - r));
            if product.norm() < f64::MIN_POSITIVE {
                continue;
            }
            let step = value(at) / product;
            roots[k] = at - step;
            moved = moved.max(step.norm());
        }
        if moved < 1e-13 {
            break;
        }
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gain: f64, alphas: &[f64]) -> ControlledQueue {
        ControlledQueue { gain, alphas: alphas.to_vec(), betas: Vec::new() }
    }

    #[test]
    fn the_papers_eigenvalues_lie_on_the_unit_circle() {
        let system = of(1.0, &[0.5, 0.3]);
        let (b, c) = system.eigenvalues();
        for value in b {
            assert!((value.re - 0.5).abs() < 1e-12 && (value.im.abs() - 3f64.sqrt() / 2.0).abs() < 1e-12);
        }
        // λ² − 0.5·λ − 0.3 = 0.
        let (r, d) = (0.25, (0.0625f64 + 0.3).sqrt());
        let mut found: Vec<f64> = c.iter().map(|value| value.re).collect();
        found.sort_by(f64::total_cmp);
        assert!((found[0] - (r - d)).abs() < 1e-9 && (found[1] - (r + d)).abs() < 1e-9, "{found:?}");
        assert!(c.iter().all(|value| value.im.abs() < 1e-9));
        assert_eq!(system.stability(), Stability::Neutral);
    }

    #[test]
    fn a_gain_below_one_is_stable_one_above_is_not_and_neither_helps_an_unstable_link() {
        for gain in [0.1, 0.25, 0.5, 0.9] {
            assert_eq!(of(gain, &[0.5]).stability(), Stability::Stable, "{gain}");
        }
        assert_eq!(of(1.2, &[0.5]).stability(), Stability::Unstable);
        assert_eq!(of(0.5, &[1.1]).stability(), Stability::Unstable);
        assert_eq!(of(0.5, &[0.5, 0.6]).stability(), Stability::Unstable);
    }

    #[test]
    fn simulated_queues_do_what_the_eigenvalues_say() {
        let far = |system: &ControlledQueue, start: f64, noise| {
            let queue = system.queue(600, start, noise, 1);
            queue[queue.len().saturating_sub(60)..].iter().fold(0.0f64, |max, q| max.max(q.abs()))
        };
        let quiet = (0.0, 0.0);
        // Without noise: a deviation of 10 goes on for ever, dies away, grows.
        let stays = far(&of(1.0, &[0.5]), 10.0, quiet);
        assert!((10.0..25.0).contains(&stays), "{stays}");
        assert!(far(&of(0.5, &[0.5]), 10.0, quiet) < 1e-6);
        assert!(far(&of(1.2, &[0.5]), 10.0, quiet) > 1e6);
        // With E[q(0)] = q0 and noise, the neutral one wanders and the stable one does not.
        let (neutral, stable) =
            (far(&of(1.0, &[0.5]), 0.0, (1.0, 1.0)), far(&of(0.5, &[0.5]), 0.0, (1.0, 1.0)));
        assert!(neutral > 2.0 * stable, "{neutral} {stable}");
        assert!(far(&of(1.0, &[1.1]), 0.0, (1.0, 1.0)) > 1e9);
    }
}
