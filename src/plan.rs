//! The plans and their limits.

use std::str::FromStr;

use clap::ValueEnum;

use crate::names::{FromName, named};

/// The maximum number of requests of a key in each window, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    per_minute: u32,
    per_day: u32,
}

/// The largest limit. Sums of it stay far from overflow.
pub const MAX_LIMIT: u32 = 1_000_000_000;

pub(crate) const INVALID_LIMIT: &str = "must be between 1 and 1000000000";

impl Limits {
    pub const fn new(per_minute: u32, per_day: u32) -> Result<Self, &'static str> {
        if per_minute == 0 || per_minute > MAX_LIMIT || per_day == 0 || per_day > MAX_LIMIT {
            return Err(INVALID_LIMIT);
        }
        Ok(Self {
            per_minute,
            per_day,
        })
    }

    pub const fn per_minute(self) -> u32 {
        self.per_minute
    }

    pub const fn per_day(self) -> u32 {
        self.per_day
    }
}

/// A plan. Enterprise has custom limits; those of the others are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// 60 requests per minute, 1,000 per day.
    Free,
    /// 300 requests per minute, 10,000 per day.
    Pro,
    /// 1,000 requests per minute, 100,000 per day.
    Business,
    Enterprise(Limits),
}

impl Plan {
    pub const fn limits(self) -> Limits {
        match self {
            Self::Free => fixed(60, 1_000),
            Self::Pro => fixed(300, 10_000),
            Self::Business => fixed(1_000, 100_000),
            Self::Enterprise(limits) => limits,
        }
    }

    pub const fn name(self) -> PlanName {
        match self {
            Self::Free => PlanName::Free,
            Self::Pro => PlanName::Pro,
            Self::Business => PlanName::Business,
            Self::Enterprise(_) => PlanName::Enterprise,
        }
    }
}

const fn fixed(per_minute: u32, per_day: u32) -> Limits {
    Limits {
        per_minute,
        per_day,
    }
}

named! {
    /// A plan's name, without the custom limits of Enterprise.
    #[derive(ValueEnum)]
    pub enum PlanName {
        Free = "free",
        Pro = "pro",
        Business = "business",
        Enterprise = "enterprise",
    }
}

impl PlanName {
    /// Returns the plan of this name, with these limits if it is enterprise.
    pub fn with_limits(
        self,
        per_minute: Option<u32>,
        per_day: Option<u32>,
    ) -> Result<Plan, String> {
        match (self, per_minute, per_day) {
            (Self::Enterprise, Some(per_minute), Some(per_day)) => {
                let limits = Limits::new(per_minute, per_day);
                let limits = limits.map_err(|problem| format!("a limit {problem}"))?;
                Ok(Plan::Enterprise(limits))
            }
            (Self::Enterprise, _, _) => {
                Err("the enterprise plan requires a limit per minute and one per day".into())
            }
            (Self::Free, None, None) => Ok(Plan::Free),
            (Self::Pro, None, None) => Ok(Plan::Pro),
            (Self::Business, None, None) => Ok(Plan::Business),
            (name, _, _) => Err(format!(
                "the {} plan has fixed limits: only the enterprise plan has custom ones",
                name.as_str()
            )),
        }
    }
}

impl FromStr for PlanName {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, &'static str> {
        Self::from_name(name).ok_or("unknown plan")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_have_the_published_limits() {
        let figures = |plan: Plan| (plan.limits().per_minute(), plan.limits().per_day());
        assert_eq!(figures(Plan::Free), (60, 1_000));
        assert_eq!(figures(Plan::Pro), (300, 10_000));
        assert_eq!(figures(Plan::Business), (1_000, 100_000));
    }

    #[test]
    fn a_plan_is_read_by_the_name_that_is_stored() {
        for plan in PlanName::value_variants() {
            assert_eq!(plan.as_str().parse::<PlanName>().unwrap(), *plan);
        }
        assert!("Free".parse::<PlanName>().is_err());
    }

    #[test]
    fn only_enterprise_has_custom_limits_and_it_needs_both() {
        let plan = PlanName::Enterprise.with_limits(Some(7), Some(9)).unwrap();
        assert_eq!(
            (plan.limits().per_minute(), plan.limits().per_day()),
            (7, 9)
        );
        let missing = PlanName::Enterprise.with_limits(Some(7), None).unwrap_err();
        assert_eq!(
            missing,
            "the enterprise plan requires a limit per minute and one per day"
        );
        assert!(PlanName::Enterprise.with_limits(Some(0), Some(1)).is_err());
        let fixed = PlanName::Free.with_limits(Some(7), None).unwrap_err();
        assert_eq!(
            fixed,
            "the free plan has fixed limits: only the enterprise plan has custom ones"
        );
        assert!(PlanName::Pro.with_limits(None, None).is_ok());
    }
}
