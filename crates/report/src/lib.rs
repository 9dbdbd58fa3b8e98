//! HTML, SVG and JSON reports.
