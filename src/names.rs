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
    };
}

pub(crate) use named;
