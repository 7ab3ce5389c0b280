//! Chinese of the help of the program's own commands.

/// A text of the help and its Chinese translation.
pub const TABLE: &[(&str, &str)] = &[
    ("A drop-in replacement for Apache RocketMQ in one binary", "单个程序即可直接替代 Apache RocketMQ"),
    (
        super::super::FIRST,
        "从这里开始：
  vostok serve                    启动全部角色；控制台地址为 http://127.0.0.1:8082/
  vostok lab producer -n 127.0.0.1:9876 -t Hello -w 1 -s 128 -q 10
  vostok admin message print-topic Hello -n 127.0.0.1:9876",
    ),
    ("Language of help, tables and errors, en or zh; else that of LC_ALL, LC_MESSAGES or LANG", "帮助、表格和错误信息的语言，en 或 zh；默认取 LC_ALL、LC_MESSAGES 或 LANG"),
    ("Start the name server and the broker, or other roles", "启动 NameServer 和 broker，或其他角色"),
    ("Generate load and measure, against Vostok or any Apache RocketMQ cluster", "对 Vostok 或任意 Apache RocketMQ 集群施加负载并测量"),
    ("Look at a cluster of Vostok or Apache RocketMQ and change it", "查看和修改 Vostok 或 Apache RocketMQ 集群"),
    ("Find out what is wrong in a cluster of Vostok or Apache RocketMQ", "诊断 Vostok 或 Apache RocketMQ 集群的问题"),
    ("Show live figures of a cluster of Vostok or Apache RocketMQ", "显示 Vostok 或 Apache RocketMQ 集群的实时指标"),
    ("Run a command of Apache RocketMQ's mqadmin, with its names, flags and texts", "执行 Apache RocketMQ 的 mqadmin 命令，命令名、参数和输出与其相同"),
    ("A command of mqadmin and its options; without any, the commands are listed", "mqadmin 的命令及其参数；不填则列出所有命令"),
    ("Print the script that lets a shell complete commands, options and names of the cluster", "打印 shell 补全脚本，可补全命令、选项和集群中的名称"),
    ("The shell", "shell 的种类"),
    ("Say what settings mean, find what is wrong with a configuration file, compare the settings of brokers", "解释配置项，检查配置文件，比较 broker 的配置"),
    ("Take over what other controllers know", "接管其他 Controller 的数据"),
    ("Read users and acls of a running broker into files, write them back, and explain decisions", "从运行中的 broker 导出用户和 ACL 到文件，写回，以及解释鉴权结果"),
    ("Make logins of the web console", "创建 Web 控制台的登录账号"),
    ("Look into a store directory, of Vostok or Apache RocketMQ: verify, repair, dump", "检查 Vostok 或 Apache RocketMQ 的存储目录：校验、修复、导出"),
    ("A tool and its flags; `vostok lab --help` lists them", "工具及其参数；`vostok lab --help` 列出全部工具"),
    ("Roles to run in this process", "本进程运行的角色"),
    ("Directory of all data: the store of a RocketMQ broker, or a new one", "数据目录：RocketMQ broker 的存储目录，或新目录"),
    ("Port of the name server", "NameServer 端口"),
    ("Port of the broker; clients with vipChannelEnabled also use the port two below it", "broker 端口；启用 vipChannelEnabled 的客户端还使用比它小 2 的端口"),
    ("Port of the controller when controllerDLegerPeers does not say it; else 9878", "Controller 端口，controllerDLegerPeers 未指定时使用；默认 9878"),
    (
        "Port of gRPC for 5.x clients; else that of --proxy-config, or 8081, which may be in use by another program: then gRPC is not served, and the log says so",
        "5.x 客户端的 gRPC 端口；默认取 --proxy-config 中的端口，再取 8081。默认端口被其他程序占用时不提供 gRPC，并写入日志",
    ),
    (
        "Port for remoting clients of a RocketMQ proxy (there 8080), which serves gRPC too; else that of --proxy-config, or none",
        "RocketMQ proxy 的 remoting 客户端端口（RocketMQ 中为 8080），同时提供 gRPC；默认取 --proxy-config 中的端口，没有则不提供",
    ),
    ("Settings of gRPC, a file like RocketMQ's rmq-proxy.json", "gRPC 的配置文件，格式同 RocketMQ 的 rmq-proxy.json"),
    (
        "Name servers the broker registers with, and whose brokers a proxy without a broker serves, beside the one of this process; else namesrvAddr of the file. A process without a name server then looks at the environment's NAMESRV_ADDR",
        "除本进程的 NameServer 外，broker 注册到的 NameServer，也是独立 proxy 所服务的 broker 的来源；默认取配置文件的 namesrvAddr。没有 NameServer 的进程再取环境变量 NAMESRV_ADDR",
    ),
    ("A RocketMQ properties file (broker.conf, namesrv.conf or controller.conf)", "RocketMQ 的配置文件（broker.conf、namesrv.conf 或 controller.conf）"),
    (
        "Start a whole cluster on this machine, each member a process of its own: a broker set of three with a controller, or two or four masters with a slave each. A further process serves gRPC and the console. The file of -c is for all brokers, and their ports are ten apart. The port of the controller is two above that of the name server unless it is given",
        "在本机启动整个集群，每个成员是独立的进程：一组三个 broker 加 Controller，或两个、四个 Master 各带一个 Slave，另有一个进程提供 gRPC 和控制台。-c 的文件用于所有 broker，broker 端口依次相差 10；未指定时 Controller 端口为 NameServer 端口加 2",
    ),
    (
        "Give each broker of --cluster a network link of its own that can be cut: a network namespace for each, which no other machine reaches. Needs root and the program ip",
        "为 --cluster 的每个 broker 建立可切断的独立网络链路：各自使用一个网络命名空间，其他机器无法访问。需要 root 权限和 ip 命令",
    ),
    (
        "Serve clients of other machines although there is neither a file (-c) nor users: everybody who reaches the ports may do everything",
        "没有配置文件（-c）也没有用户时，仍为其他机器的客户端提供服务：能访问端口的任何人都可执行任何操作",
    ),
    (
        "Address of the console; else 127.0.0.1:8082. If another program uses that port, there is no console, and the log says so. Other machines are served only with logins (vostok console user)",
        "控制台的监听地址；默认 127.0.0.1:8082。默认端口被其他程序占用时没有控制台，并写入日志。其他机器只有登录后才能访问（vostok console user）",
    ),
    ("Names under which browsers may ask the console, beside addresses and localhost", "除 IP 地址和 localhost 外，浏览器可用于访问控制台的域名"),
    (
        "File with accessKey and secretKey, with which the console signs its requests; else conf/tools.yml of ROCKETMQ_HOME",
        "控制台签名请求所用的 accessKey 和 secretKey 文件；默认取 ROCKETMQ_HOME 下的 conf/tools.yml",
    ),
    (
        "Directory below which runs of vostok lab lie (their --out); else lab in the data directory. The console shows their reports, and an administrator starts runs there",
        "存放 vostok lab 测试结果（--out）的目录；默认为数据目录下的 lab。控制台显示其中的报告，管理员启动的测试也写入此处",
    ),
    ("PEM file of the certificate chain with which the console serves HTTPS; a changed file is read again", "控制台 HTTPS 证书链的 PEM 文件；文件变化后重新读取"),
    ("PEM file of the certificate's private key", "证书私钥的 PEM 文件"),
    ("Format of lines of the log", "日志格式"),
    (
        "Write the log to broker.log, store.log and others in this directory, with RocketMQ's names and rotation, instead of standard error",
        "日志写入该目录下的 broker.log、store.log 等文件（文件名和滚动方式与 RocketMQ 相同），而不是标准错误输出",
    ),
    ("Lines for people", "便于阅读的文本行"),
    ("A JSON object a line, with the members timestamp, level, thread, target, message and those of the line", "每行一个 JSON 对象，含 timestamp、level、thread、target、message 及该行的字段"),
    ("A broker set of three in controller mode, which fails over by itself", "Controller 模式下一组三个 broker，自动切换"),
    ("Two masters with a slave each", "两个 Master，各带一个 Slave"),
    ("Four masters with a slave each", "四个 Master，各带一个 Slave"),
    ("Name server", "NameServer"),
    ("Controller: elects the masters of broker sets", "Controller：为 broker 组选举 Master"),
    ("Broker", "broker"),
    ("Controller", "Controller"),
    (
        "gRPC for 5.x clients, on the broker of this process or, without one, before the brokers that the name servers of -n know",
        "5.x 客户端的 gRPC，位于本进程的 broker 上；没有 broker 时位于 -n 的 NameServer 所知的 broker 之前",
    ),
    ("The web console, of the cluster of this process or that of -n", "Web 控制台，显示本进程所在的集群或 -n 的集群"),
    ("List the settings of a broker with their defaults", "列出 broker 的配置项及默认值"),
    (
        "Only settings with this text in their names or meanings, or about this subject (retention, durability, delay)",
        "仅名称或说明含有该文本，或与该话题（保留、刷盘、延迟）有关的配置项",
    ),
    ("Say what one setting means, its defaults here and in RocketMQ, and when a change takes effect", "说明一个配置项的含义、在 Vostok 和 RocketMQ 中的默认值，以及修改何时生效"),
    ("Name of the setting; older names of RocketMQ are known", "配置项名称；可用 RocketMQ 的旧名称"),
    (
        "Find out what is wrong with a configuration file, before a start does. Exit code 0: clean or notes only, 1: errors or warnings, 2: not readable",
        "在启动前检查配置文件。退出码：0 没有问题或只有提示，1 有错误或警告，2 无法读取",
    ),
    ("A file like RocketMQ's broker.conf, namesrv.conf or controller.conf", "与 RocketMQ 的 broker.conf、namesrv.conf 或 controller.conf 格式相同的文件"),
    ("The role that the file is for", "该文件所属的角色"),
    ("Compare the settings of two brokers or files. Exit code 0: equal, 1: different, 2: one cannot be read", "比较两个 broker 或文件的配置。退出码：0 相同，1 不同，2 有一方无法读取"),
    ("A file, or a broker's HOST:PORT, of Vostok or Apache RocketMQ", "文件，或 Vostok、Apache RocketMQ broker 的 HOST:PORT"),
    ("A file, or a broker's HOST:PORT", "文件，或 broker 的 HOST:PORT"),
    ("File with accessKey and secretKey, like RocketMQ's tools.yml", "含 accessKey 和 secretKey 的文件，格式同 RocketMQ 的 tools.yml"),
    ("Format of the answer", "输出格式"),
    ("Columns for people", "便于阅读的表格"),
    ("JSON, indented", "带缩进的 JSON"),
    ("Comma-separated values with a line of names (RFC 4180)", "CSV，首行为列名（RFC 4180）"),
    (
        "Take over what other controllers know of broker sets (ids, addresses, epochs), as those of RocketMQ, whose files Vostok does not read. Afterwards restart the brokers with the new controllerAddr",
        "接管其他 Controller（例如 RocketMQ 的，其文件 Vostok 不读取）所知的 broker 组信息（ID、地址、epoch）。完成后以新的 controllerAddr 重启 broker",
    ),
    (
        "Restore a broker set at controllers that lost their disks, from the state of its brokers. The broker with the newest log becomes master, and the only member of the in-sync set until the other brokers have its log",
        "Controller 丢失磁盘后，根据各 broker 的状态恢复 broker 组。日志最新的 broker 成为 Master；其他 broker 追上之前，同步集合中只有它",
    ),
    ("A controller of the group that is to know the set", "要恢复该 broker 组的 Controller"),
    (
        "All brokers of the set, running or just started: a missing broker may have messages that no other broker has. A Java master does not report its id: write ID@HOST:PORT",
        "该组的所有 broker，运行中或刚启动：缺少的 broker 可能有其他 broker 没有的消息。Java Master 不报告其 ID，需写成 ID@HOST:PORT",
    ),
    ("Ids of brokers that are permanently lost. Messages that no other broker has are lost", "永久丢失的 broker 的 ID。其他 broker 没有的消息随之丢失"),
    ("A controller of the other group", "原 Controller 组的一个 Controller"),
    ("A controller of the group that takes over", "接管的 Controller 组的一个 Controller"),
    ("A name server, which says which clusters and broker sets there are", "NameServer，用于查询有哪些集群和 broker 组"),
    ("Read users and acls of a running broker, of RocketMQ 5.3 or later or Vostok, into users.json and acls.json", "从运行中的 broker（RocketMQ 5.3 及以上或 Vostok）读取用户和 ACL，写入 users.json 和 acls.json"),
    ("Write users and acls of users.json and acls.json to a running broker, of RocketMQ 5.3 or later or Vostok", "把 users.json 和 acls.json 中的用户和 ACL 写入运行中的 broker（RocketMQ 5.3 及以上或 Vostok）"),
    ("Print the rules that are looked at for a request of a user, and the one that decides", "打印用户的一个请求所匹配的规则，以及起决定作用的规则"),
    (
        "Example, for the store of a Java broker that is still running:
  vostok auth import --from 10.0.0.7:10911 --out /data/rocketmq/store/config --ak root --sk SECRET

The files hold passwords in clear text, and only their owner may read them. Files that exist are not replaced.",
        "示例，读取仍在运行的 Java broker：
  vostok auth import --from 10.0.0.7:10911 --out /data/rocketmq/store/config --ak root --sk SECRET

文件含明文密码，只有所有者可读。不覆盖已有文件。",
    ),
    (
        "Example:
  vostok auth export --to 10.0.0.7:10911 --in /data/rocketmq/store/config --ak root --sk SECRET

Users that exist get the password, type and status of the file, entries of acls for the same resource are replaced, and others
stay. The user that signs comes last, so that a new password of its own does not end the command.",
        "示例：
  vostok auth export --to 10.0.0.7:10911 --in /data/rocketmq/store/config --ak root --sk SECRET

已有用户的密码、类型和状态改为文件中的值，同一资源的 ACL 条目被替换，其余不变。用于签名的用户最后写入，以免修改其密码后命令中断。",
    ),
    (
        "Example, may alice send to orders:
  vostok auth explain --user alice --request 310 --topic orders --from 10.0.0.9 -c conf/broker.conf

The files are read and not changed, and no broker is asked. Codes of requests are in docs/requests.md.",
        "示例，alice 能否向 orders 发送消息：
  vostok auth explain --user alice --request 310 --topic orders --from 10.0.0.9 -c conf/broker.conf

只读取文件，不修改，也不查询 broker。请求码见 docs/requests.md。",
    ),
    ("The broker that is asked", "要读取的 broker"),
    ("Directory of the files: config below the store's directory", "文件所在目录：存储目录下的 config"),
    ("The broker that is written to", "要写入的 broker"),
    ("Access key of a super user; else the environment's ROCKETMQ_ACCESS_KEY", "超级用户的 access key；默认取环境变量 ROCKETMQ_ACCESS_KEY"),
    ("Secret key of that access key; else the environment's ROCKETMQ_SECRET_KEY, which other users of the machine do not see", "对应的 secret key；默认取环境变量 ROCKETMQ_SECRET_KEY，本机其他用户看不到"),
    ("The user", "用户"),
    ("Code of the request, as in docs/requests.md: 310 is a send", "请求码，见 docs/requests.md；310 为发送消息"),
    ("The topic that the request names", "请求中的主题"),
    ("The consumer group that the request names", "请求中的消费组"),
    ("Address of the client", "客户端地址"),
    ("The broker's configuration file: its white lists, authorizationStrict, cluster and store count", "broker 的配置文件：使用其中的白名单、authorizationStrict、集群名和存储目录"),
    (
        "Directory of users.json and acls.json; without it config below the store of the configuration file, or ./data/config",
        "users.json 和 acls.json 所在目录；默认为配置文件中存储目录下的 config，再取 ./data/config",
    ),
    ("Decide as with authorizationStrict=true, and as without a configuration file", "按 authorizationStrict=true 判断；没有配置文件时亦如此"),
    ("Read every file once and compare what belongs together", "读取每个文件一次，比对相互关联的内容"),
    ("Say what would mend a store, and do it with --apply", "给出修复存储的办法，加 --apply 时执行"),
    ("Print records, queue units, the checkpoint, the key index, timers and the files of config/", "打印消息记录、队列单元、检查点、key 索引、定时消息和 config/ 下的文件"),
    (
        "Examples:
  vostok store verify --data /data/rocketmq/store
  vostok store verify --data ./data --commit-log /disk1/commitlog,/disk2/commitlog

Each line names a file, a position in it, what was expected and what was found. Exit code 0: clean, 1: findings, 2: the store
cannot be read. A store in use may show findings at its end that are none.",
        "示例：
  vostok store verify --data /data/rocketmq/store
  vostok store verify --data ./data --commit-log /disk1/commitlog,/disk2/commitlog

每行给出文件、位置、预期内容和实际内容。退出码：0 没有问题，1 发现问题，2 无法读取存储。正在使用的存储，其末尾可能误报。",
    ),
    (
        "Examples:
  vostok store repair --data /data/rocketmq/store            what would be done, and which messages are lost
  vostok store repair --data /data/rocketmq/store --apply    do it; the broker must not run

A broker that cannot tell damage from what a power cut left refuses to start and names the place. Then decide:
  vostok store repair --data DIR --keep-behind OFFSET --apply   the messages behind it stay, those in it are lost
  vostok store repair --data DIR --cut-at OFFSET --apply        the log ends there

What is overwritten or removed is copied to a directory beside the store first.",
        "示例：
  vostok store repair --data /data/rocketmq/store            显示将执行的修复和会丢失的消息
  vostok store repair --data /data/rocketmq/store --apply    执行修复；broker 必须已停止

broker 无法区分损坏与断电残留时拒绝启动，并给出位置。此时需选择：
  vostok store repair --data DIR --keep-behind OFFSET --apply   保留其后的消息，损坏处的消息丢失
  vostok store repair --data DIR --cut-at OFFSET --apply        日志在此处截断

被覆盖或删除的内容先复制到存储旁的目录。",
    ),
    (
        "Examples:
  vostok store dump --data /data/rocketmq/store --topic Orders --limit 10
  vostok store dump --data ./data log --from 5858 --body --json
  vostok store dump --data ./data queues --topic Orders --queue 3 --queue-from 100
  vostok store dump --data ./data checkpoint",
        "示例：
  vostok store dump --data /data/rocketmq/store --topic Orders --limit 10
  vostok store dump --data ./data log --from 5858 --body --json
  vostok store dump --data ./data queues --topic Orders --queue 3 --queue-from 100
  vostok store dump --data ./data checkpoint",
    ),
    ("The store's directory: --data of vostok serve, storePathRootDir of a RocketMQ broker", "存储目录：vostok serve 的 --data，或 RocketMQ broker 的 storePathRootDir"),
    ("Directories of the commit log, when it is not in commitlog/ below the root (storePathCommitLog)", "commit log 的目录，不在存储目录的 commitlog/ 下时指定（storePathCommitLog）"),
    ("Slots of a key index file (maxHashSlotNum of the broker)", "key 索引文件的槽数（broker 的 maxHashSlotNum）"),
    ("Places for items in a key index file (maxIndexNum of the broker)", "key 索引文件的条目数（broker 的 maxIndexNum）"),
    ("Change the files. Without it nothing is written", "修改文件；不加则不写入"),
    ("Only this: keep what lies behind the damage that begins at this position of the commit log", "只做一件事：保留 commit log 中从该位置开始的损坏之后的内容"),
    ("Only this: end the commit log at this position, where damage begins", "只做一件事：在损坏开始的该位置截断 commit log"),
    ("Records of the commit log", "commit log 的消息记录"),
    ("Units of the queues", "队列单元"),
    ("The checkpoint", "检查点"),
    ("Files and items of the key index", "key 索引的文件和条目"),
    ("Units of the timer log and slots of the wheel", "定时日志单元和时间轮槽"),
    ("The JSON files of config/", "config/ 下的 JSON 文件"),
    ("Part of the store to print", "打印的内容"),
    ("First position of the commit log", "commit log 的起始位置"),
    ("Position of the commit log behind the last record", "commit log 的结束位置（不含）"),
    ("Only this topic", "仅该主题"),
    ("Only this queue", "仅该队列"),
    ("First queue offset", "起始队列位点"),
    ("Lines at most", "最多行数"),
    ("Print bodies, as text", "以文本打印消息体"),
    ("A JSON object per line", "每行一个 JSON 对象"),
    ("Make a login or give it a new password, which is printed once. A running console takes it over when it is started again", "创建账号或重置密码，密码只打印一次。运行中的控制台重启后生效"),
    ("Name of the user", "用户名"),
    ("Role of the user", "用户的角色"),
    ("Show the user bodies of messages", "允许该用户查看消息体"),
    ("Remove the login", "删除账号"),
    ("Directory of data of the server, as given to `vostok serve`", "服务器的数据目录，与 `vostok serve` 的 --data 相同"),
    ("Looks", "只能查看"),
    ("Looks, and changes topics, groups, offsets and messages", "还可修改主题、消费组、位点和消息"),
    ("Does everything: destroys, and changes servers, their settings, users and acls", "还可执行不可恢复的操作，修改服务器、配置、用户和 ACL"),
];
