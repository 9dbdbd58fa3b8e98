use control::ControllerConfig;
use stored::Layouts;

use super::super::handshakes::Opening;
use super::*;
use crate::IMAGE_VERSION;
use crate::relay::survivor::Survivor;

/// Everything that [`Half::store`] writes.
type Image = (
    ((ControllerConfig, (Stats, Flow)), (Trickles, Marker)),
    (
        ((Subscriber, Path), (Timers, ReadyList)),
        ((PassedRecently, disputes::Disputes), (Survivor, (FlowKey, Opening))),
    ),
);

/// A change of a structure is a change of the format. So that nobody overlooks it, the format stands in a file;
/// CELLERATOR_WRITE_IMAGES writes that anew, for a new version or with a field that is there `since` then.
#[test]
fn the_format_of_an_image_is_the_one_of_its_version() {
    let file = format!("{}/src/half/tests/image-version-{IMAGE_VERSION}.txt", env!("CARGO_MANIFEST_DIR"));
    let now = Layouts::text_of::<Image>();
    if std::env::var_os("CELLERATOR_WRITE_IMAGES").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), now, "{file}");
}
