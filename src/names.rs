//! Enums with a string for each variant, and a list of all variants.

/// Defines an enum with the list of its variants, `ALL`, and the name of each, `as_str`: in the log, in metrics, in JSON and in the
/// database.
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $enum {
            $($(#[$doc])* $variant,)+
        }

        impl $enum {
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl $crate::names::FromName for $enum {
            fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.as_str() == name)
            }
        }
    };
}

pub(crate) use named;

/// The variant of an enum that has a name.
pub(crate) trait FromName: Sized {
    fn from_name(name: &str) -> Option<Self>;
}
