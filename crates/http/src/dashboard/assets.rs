//! The files of the dashboard. `npm run build` in `dashboard/` writes this list.

#[rustfmt::skip]
pub(super) const FILES: &[(&str, &[u8])] = &[
    ("index.html", include_bytes!("../../dashboard/index.html")),
    ("icon-C96oJW2-.svg", include_bytes!("../../dashboard/assets/icon-C96oJW2-.svg")),
    ("index-C_GkaprM.js", include_bytes!("../../dashboard/assets/index-C_GkaprM.js")),
    ("style-BjvQNwRN.css", include_bytes!("../../dashboard/assets/style-BjvQNwRN.css")),
];
