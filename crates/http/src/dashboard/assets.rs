//! The files of the dashboard. `npm run build` in `dashboard/` writes this list.

#[rustfmt::skip]
pub(super) const FILES: &[(&str, &[u8])] = &[
    ("index.html", include_bytes!("../../dashboard/index.html")),
    ("icon-C96oJW2-.svg", include_bytes!("../../dashboard/assets/icon-C96oJW2-.svg")),
    ("index-fnWHBz-2.js", include_bytes!("../../dashboard/assets/index-fnWHBz-2.js")),
    ("style-BQJL4CuQ.css", include_bytes!("../../dashboard/assets/style-BQJL4CuQ.css")),
];
