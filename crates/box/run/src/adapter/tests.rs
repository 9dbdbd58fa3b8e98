//! Documents written for these tests in the layouts of the two projects.

use super::*;

fn mapping() -> Mapping {
    [("17921", "10.45.0.2"), ("2/17922", "10.45.0.3"), ("0x1f4", "10.45.0.4")]
        .map(|(name, address)| (name.to_owned(), address.parse().unwrap()))
        .into()
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn srsran_of_2025_lists_devices_by_cell() {
    let document = read(
        r#"{"timestamp": "2025-09-15T10:00:00.000", "cells": [
            {"cell_metrics": {"error_indication_count": 0, "average_latency": 12},
             "ue_list": [
                {"pci": 1, "rnti": 17921, "cqi": 15, "dl_ri": 1.0, "dl_mcs": 27, "dl_brate": 17500000.0,
                 "dl_nof_ok": 908, "dl_nof_nok": 0, "dl_bs": 44000, "ul_brate": 120000.0, "bsr": 0, "ta_ns": null}]},
            {"cell_metrics": {}, "ue_list": [
                {"pci": 2, "rnti": 17922, "dl_brate": 0.0, "dl_bs": 0},
                {"pci": 2, "rnti": 17999, "dl_brate": 5.0, "dl_bs": 0}]}]}"#,
    );
    let out = srsran(&document, &mapping(), 77);
    assert_eq!(out.unmapped, ["2/17999"]);
    let [first, second] = &out.reports[..] else { panic!("{out:?}") };
    assert_eq!(first.subscriber, "10.45.0.2".parse::<IpAddr>().unwrap());
    assert_eq!((first.bandwidth, first.queue), (Some(Rate::from_kbps(17_500)), Some(Bytes::new(44_000))));
    assert!(first.is_throughput && !first.is_synchronised);
    assert_eq!(first.timestamp_us, 77, "text without a time zone is not believed");
    assert_eq!((second.bandwidth, second.queue), (Some(Rate::ZERO), Some(Bytes::ZERO)));
}

#[test]
fn srsran_before_2025_wraps_each_device() {
    let document = read(
        r#"{"timestamp": 1699000000.25, "ue_list": [{"ue_container":
            {"pci": 1, "rnti": 17921, "dl_brate": 1000000, "dl_bs": 3000, "dl_mcs": 9}}]}"#,
    );
    let out = srsran(&document, &mapping(), 77);
    assert_eq!(out.reports.len(), 1);
    assert_eq!(out.reports[0].timestamp_us, 1_699_000_000_250_000);
    assert!(out.reports[0].is_synchronised);
}

#[test]
fn srsran_objects_about_other_things_give_nothing() {
    for text in [
        r#"{"timestamp": 1.0, "app_resource_usage": {"cpu_usage_percent": 3.0}}"#,
        r#"{"cells": [{"cell_metrics": {}}]}"#,
        r#"{"cells": 3, "ue_list": {"rnti": 1}}"#,
        r#"{"ue_list": [{"rnti": "x", "dl_brate": 1}, {"rnti": 17921, "dl_brate": -4}, null, 7]}"#,
        r#"[]"#,
        r#""text""#,
    ] {
        assert_eq!(srsran(&read(text), &mapping(), 0), Adapted::default(), "{text}");
    }
}

const L2_MEAS: &str = r#"{"L2Meas": {
    "timeStamp": {"seconds": 1577836800, "nanoSeconds": 5000000},
    "cellInfo": [{"ecgi": {"cellId": "0x800000A", "plmn": {"mcc": "001", "mnc": "01"}}, "dl_nongbr_pdr_cell": 1}],
    "cellUEInfo": [
        {"ecgi": {"cellId": "0x800000A", "plmn": {"mcc": "001", "mnc": "01"}},
         "associateId": {"type": "1", "value": "10.45.0.9"},
         "dl_gbr_throughput_ue": 100, "dl_nongbr_throughput_ue": 8000, "dl_nongbr_delay_ue": 30},
        {"associateId": [{"type": 4, "value": "0x1f4"}], "dl_nongbr_throughput_ue": 64},
        {"associateId": {"type": 2, "value": "2001:db8::7"}, "dl_nongbr_throughput_ue": 1},
        {"associateId": {"type": 3, "value": "198.51.100.9"}, "dl_nongbr_throughput_ue": 64},
        {"associateId": {"type": 1, "value": "10.45.0.10"}, "ul_nongbr_throughput_ue": 64}]}}"#;

#[test]
fn rnis_measurements_name_devices_by_address_tunnel_or_nat() {
    let out = mec_rnis(&read(L2_MEAS), &mapping(), false, 77);
    assert_eq!(out.unmapped, ["198.51.100.9"], "an address behind NAT is not the device's");
    let [first, tunnel, v6] = &out.reports[..] else { panic!("{out:?}") };
    assert_eq!((first.bandwidth, first.queue), (Some(Rate::from_kbps(8_100)), None));
    assert_eq!(first.timestamp_us, 1_577_836_800_005_000);
    assert_eq!(tunnel.subscriber, "10.45.0.4".parse::<IpAddr>().unwrap());
    assert_eq!(v6.subscriber, "2001:db8::7".parse::<IpAddr>().unwrap());
}

#[test]
fn a_queue_is_reckoned_from_the_delay_on_demand() {
    let out = mec_rnis(&read(L2_MEAS), &mapping(), true, 77);
    // 8.1 Mbit/s for 30 ms.
    assert_eq!(out.reports[0].queue, Some(Bytes::new(30_375)));
    assert_eq!(out.reports[1].queue, None);
}

#[test]
fn a_document_without_time_or_of_another_kind_is_survived() {
    let bare = read(
        r#"{"cellUEInfo": [{"associateId": {"type": 1, "value": "10.0.0.1"}, "dl_gbr_throughput_ue": 5}]}"#,
    );
    let out = mec_rnis(&bare, &mapping(), false, 77);
    assert_eq!(
        (out.reports.len(), out.reports[0].timestamp_us, out.reports[0].is_synchronised),
        (1, 77, false)
    );
    for text in
        ["{}", "[]", "3", r#"{"L2Meas": null}"#, r#"{"cellUEInfo": [3, {"dl_gbr_throughput_ue": 5}]}"#]
    {
        assert!(mec_rnis(&read(text), &mapping(), true, 0).reports.is_empty(), "{text}");
    }
}
