//! Chinese of the screens of `vostok top`.

/// A text of a screen and its Chinese translation.
pub(super) const SCREEN: &[(&str, &str)] = &[
    ("overview", "概览"),
    ("topics", "主题"),
    ("groups", "消费组"),
    ("queues", "队列"),
    ("clients", "客户端"),
    ("BROKER", "broker"),
    ("ID", "ID"),
    ("ADDRESS", "地址"),
    ("VERSION", "版本"),
    ("IN/S", "写入/秒"),
    ("OUT/S", "消费/秒"),
    ("TODAY", "今日写入"),
    ("DISK", "磁盘"),
    ("TOPIC", "主题"),
    ("QUEUES", "队列数"),
    ("MESSAGES", "消息数"),
    ("GROUPS", "消费组"),
    ("LAG", "堆积"),
    ("BEHIND", "延迟"),
    ("GROUP", "消费组"),
    ("MEMBERS", "成员数"),
    ("TOPICS", "主题数"),
    ("QUEUE", "队列"),
    ("KIND", "类型"),
    ("CLIENT", "客户端"),
    ("LANGUAGE", "语言"),
    (crate::top::HELP, HELP),
    (crate::top::HINTS, " / 过滤   < > 排序   r 反序   Enter 队列   : 命令   ? 帮助   q 退出"),
    ("asking the cluster ...", "正在查询集群……"),
    ("in", "写入"),
    ("out", "消费"),
    ("lag", "堆积"),
    ("paused", "已暂停"),
    ("health unknown", "健康状况未知"),
    ("only rows with", "只显示包含此文本的行："),
    ("Esc shows all", "Esc 显示全部"),
];

const HELP: &str = "\
 1 至 5、Tab    概览、主题、消费组、队列、客户端
 / 文本         只显示包含该文本的行；Esc 恢复全部
 < >            按左侧或右侧的列排序
 r              反序
 上 下 j k      选择一行；也可用 PageUp、PageDown、Home、End
 Enter          所选主题或消费组的队列
 p              暂停
 : 命令         界面名、sort 列名、filter 文本、help、quit
 q              退出

 速率为最近两次查询之间的每秒消息数；消费组的速率为十秒平均值，因为消费组
 每五秒提交一次位点。延迟是尚有堆积时最后一条已消费消息的存储时长。短横线
 表示尚未查询到：没有消费组的主题和消费组成员轮流查询。";
