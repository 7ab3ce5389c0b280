//! Chinese of the help of `vostok admin`, `vostok doctor` and `vostok top`.

/// A text of the help and its Chinese translation.
pub(super) const FLAGS: &[(&str, &str)] = &[
    (
        "Works with clusters of Vostok and of Apache RocketMQ 4.x and 5.x.",
        "适用于 Vostok 以及 Apache RocketMQ 4.x、5.x 的集群。",
    ),
    (
        "Language of help, tables and errors, en or zh; else that of LC_ALL, LC_MESSAGES or LANG",
        "帮助、表格和错误信息的语言，en 或 zh；默认取 LC_ALL、LC_MESSAGES 或 LANG",
    ),
    ("Ask again after so many seconds, until interrupted", "每隔若干秒重新查询，直到中断"),
    (
        "Name servers; otherwise those of NAMESRV_ADDR, otherwise 127.0.0.1:9876",
        "NameServer 地址；默认取 NAMESRV_ADDR，再取 127.0.0.1:9876",
    ),
    ("How the answer is printed", "输出格式"),
    (
        "File with accessKey and secretKey; otherwise conf/tools.yml of ROCKETMQ_HOME",
        "含 accessKey 和 secretKey 的文件；默认取 ROCKETMQ_HOME 下的 conf/tools.yml",
    ),
    (
        "Print the requests that would change something, and do not send them",
        "只打印将会修改集群的请求，不发送",
    ),
    ("Do not ask before something that cannot be undone", "执行不可恢复的操作前不询问"),
    ("Columns for people", "便于阅读的表格"),
    ("JSON, indented", "带缩进的 JSON"),
    ("YAML", "YAML"),
    ("Comma-separated values with a line of names (RFC 4180)", "CSV，首行为列名（RFC 4180）"),
    (
        "Exit code 0: nothing found; 1: findings; 2: could not look. Nothing is changed.",
        "退出码：0 没有发现问题；1 发现问题；2 无法检查。不修改任何内容。",
    ),
    ("Format of the verdict", "诊断结果的输出格式"),
    ("Text for people", "便于阅读的文本"),
    ("JSON for programs", "供程序使用的 JSON"),
    ("Judge this bundle and ask no server", "诊断该文件中的数据，不查询服务器"),
    (
        "Write what was gathered to a file, too, without bodies and secrets",
        "同时把收集的数据写入文件，不含消息体和密钥",
    ),
    ("Whether this machine is looked at too", "是否同时检查本机"),
    ("When a broker is on this machine", "本机有 broker 时检查"),
    ("Always", "总是检查"),
    ("Never", "不检查"),
    (
        "Seconds between two looks at groups with lag, and for which tables of name servers of RocketMQ are watched; 0 looks once",
        "对有堆积的消费组两次采样的间隔，也是观察 RocketMQ NameServer 路由表的时长，单位为秒；0 表示只采样一次",
    ),
    (
        "Look at this machine alone, and judge every line of RocketMQ's os.sh",
        "只检查本机，并逐行评估 RocketMQ 的 os.sh",
    ),
    ("Directory of a store, whose disk and file system are looked at", "存储目录，检查其磁盘和文件系统"),
    (
        "Follow messages through a queue from producer to commit, and say where the way breaks",
        "跟踪消息在一个队列中从发送到提交位点的过程，指出中断的环节",
    ),
    ("Topic and number of the queue", "主题和队列编号"),
    ("Consumer group", "消费组"),
    ("Only the queue of this broker set", "仅该 broker 组的队列"),
    (
        "Find out what is wrong in a cluster of Vostok or Apache RocketMQ",
        "诊断 Vostok 或 Apache RocketMQ 集群的问题",
    ),
    (
        "Live figures of a cluster of Vostok or Apache RocketMQ: brokers, topics, groups, queues, clients",
        "Vostok 或 Apache RocketMQ 集群的实时指标：broker、主题、消费组、队列、客户端",
    ),
    (
        "Keys are shown with ?. Nothing is changed, and a look asks for many rows at once.",
        "按 ? 列出按键。不修改任何内容，每次查询批量获取数据。",
    ),
    ("Print the figures of one second and end", "打印一秒内的指标后结束"),
    ("Format of the figures of --once", "--once 的输出格式"),
    (
        crate::text::TIME_HELP,
        "时间：now、-1h（单位 s、m、h、d）、本地时间（TZ）2026-11-29 06:00:00、2026-11-29T06:00:00Z 或 +08:00、2026-11-29#06:00:00:000，或毫秒时间戳",
    ),
    ("GNU Bash", "GNU Bash"),
    ("Z shell", "Z shell"),
    ("Fish", "Fish"),
];
