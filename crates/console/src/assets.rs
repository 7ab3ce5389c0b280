//! Files that pages load: the style and script of the console, and uPlot (MIT), which draws charts.

/// Addresses of uPlot. The version is part of the address, so that browsers keep the files.
pub(crate) const CHART_SCRIPT: &str = "/static/uplot-1.6.32.js";
pub(crate) const CHART_STYLE: &str = "/static/uplot-1.6.32.css";

/// A file that pages load.
#[derive(Debug)]
pub(crate) struct Asset {
    path: &'static str,
    /// Content type.
    pub kind: &'static str,
    pub text: &'static str,
    /// Whether the address changes with the content, so that browsers may keep the file.
    pub is_versioned: bool,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const UPLOT_SCRIPT: &str = include_str!("../vendor/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../vendor/uplot/uPlot.min.css");

const ASSETS: [Asset; 4] = [
    Asset {
        path: "/static/console.css",
        kind: STYLE,
        text: include_str!("console.css"),
        is_versioned: false,
    },
    Asset { path: "/static/console.js", kind: SCRIPT, text: include_str!("console.js"), is_versioned: false },
    Asset { path: CHART_SCRIPT, kind: SCRIPT, text: UPLOT_SCRIPT, is_versioned: true },
    Asset { path: CHART_STYLE, kind: STYLE, text: UPLOT_STYLE, is_versioned: true },
];

/// The file of an address.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::hex;

    #[test]
    fn vendored_files_are_those_of_their_checksums() {
        let files = [
            ("LICENSE", include_str!("../vendor/uplot/LICENSE")),
            ("uPlot.iife.min.js", UPLOT_SCRIPT),
            ("uPlot.min.css", UPLOT_STYLE),
        ];
        let sums = files.map(|(name, text)| {
            let sum = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
            format!("{}  {name}\n", hex(sum.as_ref()))
        });
        assert_eq!(sums.concat(), include_str!("../vendor/uplot/SHA256SUMS"));
        assert!(files[0].1.starts_with("The MIT License (MIT)"));
    }

    #[test]
    fn addresses_of_vendored_files_have_their_version() {
        let (_, version) = UPLOT_SCRIPT.lines().next().unwrap().split_once("(v").unwrap();
        let version = version.split(')').next().unwrap();
        for (path, end) in [(CHART_SCRIPT, "js"), (CHART_STYLE, "css")] {
            assert_eq!(path, format!("/static/uplot-{version}.{end}"));
            assert!(find(path).is_some_and(|asset| asset.is_versioned));
        }
        assert!(find("/static/uplot.js").is_none() && !find("/static/console.js").unwrap().is_versioned);
    }

    #[test]
    fn a_page_with_charts_has_room_below_250_kb() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes < 120_000, "{bytes}");
    }
}
