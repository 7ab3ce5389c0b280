//! The words of the pages in English and Chinese. The English text is the key.

use http::{HeaderMap, header};

/// A language of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lang {
    En,
    Zh,
}

impl Lang {
    /// The language of a code, if it is one of the two.
    pub fn of(code: &str) -> Option<Self> {
        match code.get(..2)? {
            "en" => Some(Self::En),
            "zh" => Some(Self::Zh),
            _ => None,
        }
    }

    /// The language that a browser prefers.
    pub fn preferred(headers: &HeaderMap) -> Self {
        let text = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        text.unwrap_or_default().split(',').find_map(|code| Self::of(code.trim())).unwrap_or(Self::En)
    }

    /// Its code in HTML.
    pub fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-CN",
        }
    }

    /// A text of the pages.
    pub fn say(self, english: &str) -> &str {
        match (self, chinese(english)) {
            (Self::Zh, Some(text)) => text,
            _ => english,
        }
    }

    /// The name of a column or member of an answer.
    pub fn column(self, name: &str) -> String {
        let plain = name.replace('_', " ");
        self.say(&plain).to_owned()
    }

    /// What an operation does, from the table of `docs/admin.zh-CN.md`.
    pub fn about(self, operation: &admin::Operation) -> &'static str {
        const TABLE: &str = include_str!("../../../docs/admin.zh-CN.md");
        if self == Self::En {
            return operation.about;
        }
        let begin = format!("| `{} {}", operation.noun, operation.verb);
        let is_row =
            |line: &&str| line.strip_prefix(begin.as_str()).is_some_and(|rest| rest.starts_with([' ', '`']));
        let row = TABLE.lines().find(is_row);
        row.and_then(|row| row.trim_end_matches([' ', '|']).rsplit('|').next())
            .map_or(operation.about, str::trim)
    }
}

fn chinese(english: &str) -> Option<&'static str> {
    WORDS.iter().find(|(key, _)| *key == english).map(|(_, text)| *text)
}

/// English text and its Chinese translation.
const WORDS: &[(&str, &str)] = &[
    ("Overview", "总览"),
    ("Brokers", "Broker"),
    ("Topics", "主题"),
    ("Groups", "消费组"),
    ("Clients", "客户端"),
    ("Messages", "消息"),
    ("Dead letters", "死信"),
    ("Operations", "全部操作"),
    ("Audit", "审计"),
    ("Users", "用户"),
    ("Log in", "登录"),
    ("Log out", "退出"),
    ("Name", "用户名"),
    ("Password", "密码"),
    ("Skip to content", "跳到正文"),
    ("Name or password is wrong", "用户名或密码错误"),
    ("A broker refuses the console", "有 broker 拒绝了控制台"),
    ("Too many attempts to log in; wait a minute", "登录尝试次数过多，请稍候一分钟"),
    ("Figures taken at", "数据采集于"),
    ("No broker is known", "没有已知的 Broker"),
    ("Is it well?", "集群健康吗？"),
    ("Nothing is wrong as far as was looked", "已检查的各项均无异常"),
    ("findings", "项问题"),
    ("checks passed", "项检查通过"),
    ("skipped for want of data", "项因缺少数据跳过"),
    ("The doctor has not looked yet; it begins when this page is open", "诊断尚未完成；打开本页后自动开始"),
    ("For clusters of more than 2000 topics run", "主题超过 2000 个的集群请运行"),
    ("More", "更多"),
    ("What to do", "处理办法"),
    ("Messages per second", "每秒消息数"),
    ("stored", "写入"),
    ("delivered", "投递"),
    ("10 minutes", "10 分钟"),
    ("6 hours", "6 小时"),
    ("7 days", "7 天"),
    ("Busiest brokers", "最忙的 Broker"),
    ("Busiest topics", "最忙的主题"),
    ("No topic gets messages now", "当前没有主题在写入消息"),
    ("Cluster", "集群"),
    ("Runtime", "运行数据"),
    ("Settings", "配置"),
    ("Replication", "复制"),
    ("Name servers", "NameServer"),
    ("Search", "搜索"),
    ("Type", "类型"),
    ("all", "全部"),
    ("normal", "普通"),
    ("retry", "重试"),
    ("dead letter", "死信"),
    ("system", "系统"),
    ("found", "个结果"),
    ("Previous", "上一页"),
    ("Next", "下一页"),
    ("Page", "页"),
    ("Nothing to show", "没有内容"),
    ("Queues", "队列"),
    ("Route", "路由"),
    ("Consumers", "消费者"),
    ("Producers", "生产者"),
    ("Create a topic", "创建主题"),
    ("Change the topic", "修改主题"),
    ("Delete the topic", "删除主题"),
    ("Permission", "权限"),
    ("Send a message", "发送消息"),
    ("Show messages", "查看消息"),
    ("Create a group", "创建消费组"),
    ("Change the group", "修改消费组"),
    ("Delete the group", "删除消费组"),
    ("Reset offsets", "重置位点"),
    ("Skip messages", "跳过堆积"),
    ("Clone offsets", "克隆位点"),
    ("Progress", "消费进度"),
    ("Members", "成员"),
    ("Subscriptions", "订阅关系"),
    ("nobody", "无"),
    ("Group", "消费组"),
    ("Topic", "主题"),
    ("Broker", "Broker"),
    ("Find by", "查询方式"),
    ("key", "Key"),
    ("message id", "消息 ID"),
    ("topic and time", "主题和时间"),
    ("Key or id", "Key 或 ID"),
    ("From (UTC)", "开始时间 (UTC)"),
    ("Until (UTC)", "结束时间 (UTC)"),
    ("Find", "查找"),
    ("At most 50 messages are shown", "最多显示 50 条消息"),
    ("Message", "消息"),
    ("Body", "消息体"),
    ("Properties", "属性"),
    ("Consumption", "消费轨迹"),
    ("Trace", "消息轨迹"),
    ("Resend", "重新投递"),
    ("Preview", "预演"),
    ("Do it", "执行"),
    ("Look", "查看"),
    ("only looks", "只读"),
    ("changes", "修改"),
    ("destroys", "不可恢复"),
    ("This cannot be undone. Type", "此操作不可撤销。请输入"),
    ("to confirm", "以确认"),
    ("Requests that would be sent", "将要发送的请求"),
    ("Nothing was changed", "未做任何变更"),
    ("Done", "完成"),
    ("Answer", "结果"),
    ("required", "必填"),
    ("yes", "是"),
    ("no", "否"),
    ("optional", "可选"),
    ("Not served", "请求未被处理"),
    ("Add", "添加"),
    ("Remove", "删除"),
    ("Role", "角色"),
    ("May see bodies of messages", "可查看消息体"),
    ("The password is shown only now", "密码只显示这一次"),
    ("Nobody has to log in, because only this machine is served", "仅服务本机，无需登录"),
    ("Your role does not allow this", "您的角色无权执行此操作"),
    ("The same as JSON", "JSON 数据"),
    ("Command", "命令"),
    ("lag", "堆积"),
    ("diff", "堆积（条）"),
    ("lag seconds", "堆积（秒）"),
    ("topic", "主题"),
    ("group", "消费组"),
    ("broker", "Broker"),
    ("brokers", "Broker"),
    ("cluster", "集群"),
    ("queue", "队列"),
    ("address", "地址"),
    ("addresses", "地址"),
    ("version", "版本"),
    ("in tps", "写入 TPS"),
    ("out tps", "投递 TPS"),
    ("put tps", "写入 TPS"),
    ("consume tps", "消费 TPS"),
    ("diff total", "总堆积（条）"),
    ("inflight total", "处理中总数"),
    ("inflight", "处理中"),
    ("disk ratio", "磁盘使用率"),
    ("hours", "保留时长（小时）"),
    ("active", "活跃"),
    ("error", "错误"),
    ("min offset", "最小位点"),
    ("max offset", "最大位点"),
    ("last updated", "最后更新"),
    ("broker offset", "Broker 位点"),
    ("consumer offset", "消费位点"),
    ("client ip", "客户端 IP"),
    ("client id", "客户端 ID"),
    ("client host", "客户端地址"),
    ("last time", "最后消费消息的存储时间"),
    ("last heartbeat", "最后心跳"),
    ("language", "语言"),
    ("expression", "表达式"),
    ("members", "成员"),
    ("subscriptions", "订阅关系"),
    ("consume type", "消费类型"),
    ("message model", "消费模式"),
    ("consume from where", "起始位点"),
    ("read queues", "读队列"),
    ("write queues", "写队列"),
    ("perm", "权限"),
    ("status", "状态"),
    ("type", "类型"),
    ("time", "时间"),
    ("user", "用户"),
    ("action", "操作"),
    ("outcome", "结果"),
    ("value", "值"),
    ("server", "服务器"),
    ("request", "请求"),
    ("content", "内容"),
    ("message id", "消息 ID"),
    ("store time", "存储时间"),
    ("born time", "发送时间"),
    ("tags", "Tag"),
    ("keys", "Key"),
    ("queue offset", "队列位点"),
    ("offset", "位点"),
    ("severity", "级别"),
    ("subject", "对象"),
    ("figure", "数据"),
    ("code", "检查项"),
    ("fix", "处理办法"),
    ("reason", "原因"),
    ("in day", "24 小时写入"),
    ("out day", "24 小时投递"),
    ("in today", "今日写入"),
    ("out today", "今日投递"),
    ("cost ms", "耗时 (ms)"),
    ("retries", "重试次数"),
    ("critical", "严重"),
    ("warning", "警告"),
    ("advice", "建议"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_of_the_pages_has_a_translation() {
        let mut count = 0;
        for source in crate::pages::SOURCES {
            for rest in source.split("say(\"").skip(1) {
                let text = rest.split('"').next().unwrap_or_default();
                assert!(chinese(text).is_some(), "{text:?} has no Chinese text");
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn the_language_is_the_first_that_is_known() {
        let mut headers = HeaderMap::new();
        assert_eq!(Lang::preferred(&headers), Lang::En);
        headers.insert(header::ACCEPT_LANGUAGE, "fr, zh-TW;q=0.8, en".parse().unwrap());
        assert_eq!(Lang::preferred(&headers), Lang::Zh);
        assert_eq!((Lang::of("x"), Lang::of("中文")), (None, None));
    }

    #[test]
    fn operations_are_described_in_chinese() {
        let operations = admin::OPERATIONS.into_iter().flatten();
        for operation in operations {
            let about = Lang::Zh.about(operation);
            assert!(
                !about.is_ascii(),
                "{} {} has no row in docs/admin.zh-CN.md",
                operation.noun,
                operation.verb
            );
        }
    }
}
