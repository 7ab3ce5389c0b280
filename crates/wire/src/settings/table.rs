//! Declaration of settings: one row has all facts about a setting.

/// Declares a struct of settings with its defaults (`Default`) and its table (`properties()`).
///
/// | section | row |
/// |---|---|
/// | `struct` | `"name" Effect field: type = default, [codec], "text";` without `[codec]` any value of the type is accepted |
/// | `parts` | `field: type;` another struct of settings, whose settings are settings of the whole |
/// | `paths` | `"name" Effect [field.of.another.struct], [codec], "text";` a setting of a struct that is declared elsewhere |
/// | `fields` | `field: type = default;` a field that no file sets |
/// | `also` | expressions with further properties |
///
/// A codec implements [`Codec`](crate::settings::Codec).
#[macro_export]
macro_rules! settings {
    (@codec) => { $crate::settings::Plain };
    (@codec $codec:expr) => { $codec };
    (
        $(#[$meta:meta])*
        $vis:vis struct $Settings:ident {
            $($name:literal $effect:ident $field:ident: $type:ty = $default:expr, $([$codec:expr],)? $doc:literal;)*
        }
        $(parts { $($(#[$part_meta:meta])* $part:ident: $Part:ty;)* })?
        $(paths { $($path_name:literal $path_effect:ident [$($path:ident).+], $([$path_codec:expr],)? $path_doc:literal;)* })?
        $(fields { $($(#[$own_meta:meta])* $own_vis:vis $own:ident: $own_type:ty = $own_default:expr;)* })?
        $(also { $($also:expr),* })?
    ) => {
        $(#[$meta])*
        $vis struct $Settings {
            $(#[doc = concat!("`", $name, "`: ", $doc, ".")] pub $field: $type,)*
            $($($(#[$part_meta])* pub $part: $Part,)*)?
            $($($(#[$own_meta])* $own_vis $own: $own_type,)*)?
        }

        impl Default for $Settings {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    $($($part: <$Part>::default(),)*)?
                    $($($own: $own_default,)*)?
                }
            }
        }

        impl $Settings {
            /// The table of these settings.
            $vis fn properties() -> Vec<$crate::settings::Property<Self>> {
                let rows = [
                    $($crate::settings::Property::new(
                        ($name, $doc),
                        $crate::settings::Effect::$effect,
                        |config: &Self| {
                            $crate::settings::Codec::<$type>::show(&$crate::settings!(@codec $($codec)?), &config.$field)
                        },
                        |config: &mut Self, text| {
                            config.$field = $crate::settings::Codec::<$type>::read(&$crate::settings!(@codec $($codec)?), text)?;
                            Ok(())
                        },
                    ),)*
                    $($($crate::settings::Property::new(
                        ($path_name, $path_doc),
                        $crate::settings::Effect::$path_effect,
                        |config: &Self| {
                            $crate::settings::Codec::show(&$crate::settings!(@codec $($path_codec)?), &config.$($path).+)
                        },
                        |config: &mut Self, text| {
                            config.$($path).+ = $crate::settings::Codec::read(&$crate::settings!(@codec $($path_codec)?), text)?;
                            Ok(())
                        },
                    ),)*)?
                ];
                let rows = rows.into_iter();
                $($(let rows = rows.chain(
                    <$Part>::properties().into_iter().map(|row| row.within(|it: &Self| &it.$part, |it: &mut Self| &mut it.$part)),
                );)*)?
                $($(let rows = rows.chain($also);)*)?
                rows.collect()
            }
        }
    };
}
