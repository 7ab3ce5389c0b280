//! Requests 2001 to 2004 about cold data. RocketMQ throttles groups that read old messages; here cold reads run in the disk pool,
//! apart from reads in memory, so there is nothing to throttle. The requests are answered, and the answers say that they have no
//! effect.

use serde_json::json;
use wire::codes::response;
use wire::frame::Command;

use crate::broker::Broker;
use crate::{Answer, Refusal};

const WITHOUT_EFFECT: &str = "it has no effect: cold reads run apart from hot ones here";

/// 2001 `UPDATE_COLD_DATA_FLOW_CTR_CONFIG` and 2002 `REMOVE_COLD_DATA_FLOW_CTR_CONFIG`: limits of groups, which are not kept.
pub(crate) fn put_bounds() -> Result<Answer, Refusal> {
    Ok(Answer::success().remark(WITHOUT_EFFECT))
}

/// 2003 `GET_COLD_DATA_FLOW_CTR_INFO` (`ColdDataCgCtrService.getColdDataFlowCtrInfo`).
pub(crate) fn bounds(broker: &Broker) -> Result<Answer, Refusal> {
    let number = |key| broker.config.shown(key).parse::<i64>().unwrap_or_default();
    let body = json!({
        "runtimeTable": {},
        "configTable": {},
        "cgColdReadThreshold": number("cgColdReadThreshold"),
        "globalColdReadThreshold": number("globalColdReadThreshold"),
        "globalAcc": 0,
    });
    Ok(Answer::success().body(body.to_string().into_bytes()))
}

/// 2004 `SET_COMMITLOG_READ_MODE`: in RocketMQ, mode 0 lets the kernel read ahead in commit log files and mode 1 does not.
pub(crate) fn set_read_ahead(command: &Command<'_>) -> Result<Answer, Refusal> {
    match command.fields.need_number("READ_AHEAD_MODE")? {
        mode @ (0 | 1) => {
            let remark = format!("set commitlog readahead mode success, mode: {mode}; {WITHOUT_EFFECT}");
            Ok(Answer::success().remark(remark))
        }
        mode => {
            let remark = format!("set commitlog readahead mode param value error: {mode}, expected 0 or 1");
            Err(Refusal::new(response::INVALID_PARAMETER, remark))
        }
    }
}
