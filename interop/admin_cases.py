"""Commands of mqadmin 5.5.0 in their order, and what each must print. `{n}` is the name server, `{b}` the broker."""
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from tests.kit.waiting import PATIENCE_SECONDS


@dataclass
class Case:
    """A command: its words, patterns that its output must hold, and patterns that the output must not hold."""

    title: str
    words: list
    wants: list
    lacks: list = field(default_factory=list)
    # Whether the command must print an error.
    fails: bool = False
    # Whether the outcome takes time: the command runs until its output is right.
    patient: bool = False
    # Text of a command that found its work done, which is right if an earlier run got no answer in time.
    again: str = ""
    # Whether later cases need this one.
    needed: bool = False
    # The only server that the case is for.
    only: str = ""
    # Seconds until a command that never ends is interrupted.
    seconds: int = PATIENCE_SECONDS
    # Reads values for later cases from the output.
    learn: Optional[Callable] = None
    # Returns what else is wrong, from the output and the known values.
    check: Optional[Callable] = None


def case(words, *wants, title="", **more):
    split = [word.replace("_", " ") if word.startswith("text:") else word for word in words.split(" ")]
    split = [word.removeprefix("text:") for word in split]
    return Case(title or words, [*split, *(() if words.startswith("!") else ("-n", "{n}"))], list(wants), **more)


def first_message(text):
    rows = [line.split() for line in text.splitlines() if line.strip()]
    queue, offset, offset_id, unique = rows[0]
    return {"queue": queue, "offset": offset, "offset_id": offset_id, "unique": unique}


def own_client(text):
    return {"client": next(line.split()[0] for line in text.splitlines() if "JAVA" in line)}


def lines(count, *parts):
    """Checks that `count` lines have all these parts."""
    def check(text, known):
        found = [line for line in text.splitlines() if all(part.format(**known) in line for part in parts)]
        return None if len(found) == count else f"{len(found)} lines with {parts}, expected {count}"
    return check


def exported(name, *parts):
    """Checks that a file in the run's directory is JSON and has these parts."""
    def check(_text, known):
        text = Path(known["dir"], name).read_text()
        missing = [part for part in parts if part not in text]
        json.loads(text)
        return f"{name} lacks {missing}" if missing else None
    return check


def written(name, text):
    """Writes a file that a later command reads."""
    return lambda _text, known: Path(known["dir"], name).write_text(text) and None


def kept(setting):
    """Checks that the broker's file holds a changed setting and, on Vostok, the comment that it began with."""
    def check(_text, known):
        text = Path(known["conf"]).read_text()
        return None if setting in text.splitlines() and known["comment"] in text else f"{known['conf']} lacks {setting} or {known['comment']!r}:\n{text}"
    return check


def cases():
    for part in (topics, clients, messages, offsets, lite, brokers, names, exports, later, refused, ends):
        yield from part()


# Text of updateTopicPerm when the topic has the permission already.
SAME = "new perm equals to the old one"


def topics():
    yield case("updateTopic -b {b} -t One -r 4 -w 4 -a +message.type=NORMAL", "^create topic to {b} success", "readQueueNums=4, writeQueueNums=4, perm=RW-", needed=True)
    yield case("updateTopic -c DefaultCluster -t Two -r 2 -w 2", "^create topic to {b} success", "TopicConfig .topicName=Two, readQueueNums=2", needed=True)
    yield case("updateTopic -c DefaultCluster -t Two -r 2 -w 3 -p 6", "success", "writeQueueNums=3")
    yield case("updateTopic -b {b} -t One -a +queue.type=BatchCQ", "CODE: 1  DESC: .*unchangeable", fails=True)
    yield case("updateTopic -b {b} -t One -a +no.such=1", "CODE: 1  DESC: .*unsupported key: no.such", fails=True)
    yield case("updateTopic -b {b} -t One -a +message.type=MIXED", "CODE: 29 .*MIXED message type is not supported", fails=True)
    yield case("updateTopic -b {b} -t TBW102", "CODE: 29  DESC: The topic.TBW102. is conflict with system topic", fails=True)
    yield case("updateTopic -b {b} -t broker-a", "CODE: 29  DESC: The topic.broker-a. is conflict with system topic", fails=True)
    yield case("updateTopic -b {b} -t bad^name", "illegal characters", fails=True)
    yield case("topicList", "^One$", "^Two$", "^TBW102$", patient=True)
    yield case("topicRoute -t One", '"brokerName":"broker-a"', '0:"{b}"', '"readQueueNums":4')
    yield case("topicRoute -t One -l", r"^DefaultCluster +broker-a +\{0={b}\} +4 +4 +6", "^Total: +1 +4 +4")
    yield case("topicRoute -t NoSuch", "CODE: 17", fails=True)
    yield case("topicClusterList -t One", "^DefaultCluster$")
    yield case("updateTopicPerm -b {b} -t Two -p 4", "update topic perm from 6 to 4 in {b} success", "perm=R--", again=SAME)
    yield case("topicRoute -t Two", '"perm":4', patient=True, title="topicRoute after updateTopicPerm")
    yield case("updateTopicPerm -c DefaultCluster -t Two -p 6", "update topic perm from 4 to 6 in {b} success", again=SAME)
    rows = [{"topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
             "attributes": {"+message.type": "FIFO"}} for name in ("List1", "List2")]
    yield case("topicList", "One", title="(a file for updateTopicList)", check=written("topics.json", json.dumps(rows)), needed=True)
    yield case("updateTopicList -b {b} -f {dir}/topics.json", "success", check=lines(1, "success"))
    yield case("topicRoute -t List2", '"readQueueNums":2', patient=True, title="topicRoute after updateTopicList")


def clients():
    yield case("updateSubGroup -c DefaultCluster -g G -s true -q 1 -r 5", "create subscription group to {b} success", "retryMaxTimes=5", "consumeFromMinEnable=false", needed=True)
    rows = [{"groupName": name, "retryMaxTimes": 7} for name in ("ListG1", "ListG2")]
    yield case("topicList", "One", title="(a file for updateSubGroupList)", check=written("groups.json", json.dumps(rows)), needed=True)
    yield case("updateSubGroupList -b {b} -f {dir}/groups.json", "success")
    yield case("getConsumerConfig -g ListG2", "retryMaxTimes += +7")
    yield case("getConsumerConfig -g G", "DefaultCluster:broker-a", "groupName += +G$", "retryMaxTimes += +5", "consumeEnable += +true")
    yield case("!send P One 40", "^0 0 ", needed=True, learn=first_message)
    yield case("!consume G One *", needed=True)
    yield case("!consumed G", "^40$", patient=True, needed=True)
    yield case("consumerConnection -g G", "JAVA +V5_5_0", r"^One +\*", r"^%RETRY%G +\*", "ConsumeType: CONSUME_PASSIVELY", "MessageModel: CLUSTERING",
               "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET", needed=True, learn=own_client)
    yield case("consumerConnection -g G -b {b}", "{client}")
    yield case("consumerConnection -g NoSuch", "CODE: (17|206)", fails=True)
    yield case("producerConnection -g P -t One", "^0001 .*@P +127.0.0.1:[0-9]+ +JAVA +V5_5_0", patient=True)
    yield case("producerConnection -g NoSuch -t One", "CODE: 1  DESC: the producer group.NoSuch. not exist", fails=True)
    yield case("producer -b {b}", "producer group .P. instance : clientId=.*@P,remoteIP=/127.0.0.1:[0-9]+, language=JAVA, version=513, lastUpdateTimestamp=[0-9]{13}",
               patient=True)
    yield case("consumerStatus -g G", "^1 +{client} +V5_5_0", "Same subscription in the same group of consumer", "Rebalance OK")
    yield case("consumerStatus -g G -i {client}", "#Consumer Properties#", "PROP_CONSUME_TYPE +: CONSUME_PASSIVELY", "#Consumer Subscription#", "#Consumer Offset#", "^One +broker-a +0 +10", fails=True)
    yield case("consumerStatus -g G -i {client} -s", "#Consumer jstack#", "TID: [0-9]+ STATE: ", fails=True)
    yield case("consumerStatus -g G -i no-such", "CODE: 1  DESC: The Consumer <G> <no-such> not online", fails=True)
    yield case("consumerProgress -g G", "^One +broker-a +0 +10 +10 +0 +0 +20", "^Consume Diff Total: 0", "^Consume Inflight Total: 0", patient=True,
               check=lines(4, "One", "broker-a"))
    yield case("consumerProgress -g G -s true", "^One +broker-a +0 +10 +10 +[0-9.]+ +0 +0")
    yield case("consumerProgress", "^G +1 +V5_5_0 +PUSH +CLUSTERING +[0-9]+ +0$")
    yield case("topicStatus -t One", r"^broker-a +0 +0 +10 +20\d\d-", "Topic Put TPS: [0-9.]+", check=lines(4, "broker-a"))
    yield case("topicStatus -t NoSuch", "CODE: 17", fails=True)
    yield case("topicList -c", "^DefaultCluster +One +G", "^DefaultCluster +Two")
    yield case("statsAll -t One", r"^One +G +0 +[0-9.]+ +[0-9.]+ +40 +40", patient=True)
    yield case("statsAll -a", "^One +G ", lacks=["^Two "])
    yield case("statsAll", "^One +G +0", "^Two .*NO_CONSUMER")
    yield case("brokerConsumeStats -b {b}", "^One +G +broker-a +0 +10 +10 +0 +20", "^Diff Total: 0")


def messages():
    detail = ["Topic: +One", r"Tags: +\[TagA\]", r"Keys: +\[key-0\]", "Queue ID: +{queue}", "Queue Offset: +{offset}", "CommitLog Offset: +0", "UNIQ_KEY={unique}"]
    yield case("queryMsgById -i {offset_id} -t One", "OffsetID: +{offset_id}", *detail, "MessageTrack .consumerGroup=G, trackType=CONSUMED,")
    yield case("queryMsgById -i {offset_id} -t One -g G -d {client}", "consumeResult=CR_SUCCESS")
    yield case("queryMsgByUniqueKey -t One -i {unique}", *detail, "MessageTrack .consumerGroup=G, trackType=CONSUMED,")
    yield case("queryMsgByUniqueKey -t One -i {unique} -g G -d {client}", "consumeResult=CR_SUCCESS")
    yield case("queryMsgByOffset -t One -b broker-a -i {queue} -o {offset}", "OffsetID: +{offset_id}", *detail[:-1], "trackType=CONSUMED")
    yield case("queryMsgByKey -t One -k key-0", "^{unique} +0 +0", check=lines(1, "{unique}"))
    yield case("queryMsgByKey -t One -k no-such-key", "CODE: 22|query message by key finished|no message", fails=True)
    yield case("queryMsgTraceById -i {unique}", "^Pub +P +127.0.0.1 +20.*ms +success", patient=True)
    yield case("printMsg -t One", check=lines(10, "MSGID:", "queueId=1,"))
    yield case("printMsg -t One -s TagB", "minOffset=0", lacks=["MSGID:"])
    yield case("printMsgByQueue -t One -a broker-a -i 1 -p true -d true", "BODY: body 1$|body 1", check=lines(10, "MSGID:"))
    yield case("printMsgByQueue -t One -a broker-a -i 1 -f true", "TagA")
    yield case("sendMessage -t Two -p text:hello_there -k k1 -c TagB", "^broker-a +[0-2] +SEND_OK +[0-9A-F]+")
    yield case("sendMessage -t Two -p pinned -b broker-a -i 1 -k k2", "^broker-a +1 +SEND_OK")
    yield case("queryMsgByKey -t Two -k k2", "^[0-9A-F]+ +1 ", patient=True)
    yield case("consumeMessage -t Two", "Consume ok", "topic.*Two", "KEYS=k2,", patient=True)
    yield case("consumeMessage -t One -b broker-a -i 0 -o 2 -c 3", "Consume ok", check=lines(3, "MSGID:", "queueId=0,"))
    yield case("sendMsgStatus -b broker-a -c 3", "sendStatus=SEND_OK", check=lines(3, "SEND_OK", "topic=broker-a"))
    yield case("checkMsgSendRT -t Two -a 5", "^Avg RT: ", lacks=["false"], patient=True, check=lines(5, "broker-a", "true"))
    yield case("clusterRT -a 2 -s 10 -i 1", "^DefaultCluster +broker-a +[0-9.]+ +2 +0", fails=True, seconds=5, patient=True)
    yield case("queryCq -t One -q 0 -i 0 -c 5 -b {b}", "max: [0-9]+, min: 0", "physicOffset=0, physicSize=[0-9]+, tagsCode=2598919", check=lines(5, "ConsumeQueueData{{"))
    yield case("queryCq -t One -q 0 -i 0 -c 1 -b {b} -g G", '"subString":"\\*"')
    yield case("queryMsgById -i {offset_id} -t One -s true", "SEND_OK")
    yield case("queryCq -t One -q 99 -i 0 -c 5 -b {b}", "CODE: 1  DESC: 99@One is not exist!", fails=True)


def offsets():
    # A commit makes no group.
    yield case("updateSubGroup -b {b} -g G2 -s true", "success", title="(the group that gets offsets)", needed=True)
    yield case("cloneGroupOffset -s G -d G2 -t One -o true", "clone group offset success. srcGroup.G., destGroup=.G2., topic.One.")
    yield case("!stop G")
    yield case("consumerConnection -g G", "CODE: 206  DESC: the consumer group.G. not online", fails=True, title="consumerConnection, nobody online", patient=True)
    yield case("resetOffsetByTime -g G -t One -s 0 -f true", "^#brokerName", "^broker-a +0 +0 *$", check=lines(4, "broker-a", " 0"))
    yield case("consumerProgress -g G", "^One +broker-a +0 +1[0-9] +0 +1", title="consumerProgress after a reset to the beginning")
    yield case("consumerProgress", "^G +0 +OFFLINE")
    yield case("skipAccumulatedMessage -g G -t One", "^broker-a +1 +1[0-9]")
    yield case("consumerProgress -g G", "^Consume Diff Total: 0", title="consumerProgress after skipAccumulatedMessage")
    yield case("resetOffsetByTime -g G -t One -s now -b {b} -q 0 -o 3", "reset consumer offset to 3")
    yield case("consumerProgress -g G", "^One +broker-a +0 +1[0-9] +3 ", title="consumerProgress after a reset of one queue")
    yield case("resetOffsetByTime -g G -t One -s now -b {b} -q 0 -o 3000", "Target offset 3000 not in consume queue range .0-[0-9]+.", fails=True)
    for mode in ("POP", "PULL"):
        yield case(f"setConsumeMode -b {{b}} -t One -g ListG1 -m {mode} -q 2", "set consume mode to {b} success",
                   f"topic.One. group.ListG1. consume mode.{mode}. popShareQueueNum.2.")
    yield case("resetOffsetByTime -g NoSuch -t One -s now", "Group NoSuch does not exist|CODE: 26", fails=True)
    yield case("updateSubGroup -b {b} -g G2 -s true", "success")
    yield case("updateSubGroup -b {b} -g G2 -s false", "success", "consumeEnable=false")
    yield case("getConsumerConfig -g G2", "consumeEnable += +false")
    yield case("updateSubGroup -b {b} -g bad^group", "illegal characters|CODE: 29", fails=True)
    yield case("!consume Mixed One TagA", title="a consumer of TagA")
    yield case("!consume Mixed One TagB", title="one of TagB in the same group")
    yield case("brokerStatus -b {b}", "subscriptionConflictGroups +: 1$", "subscriptionConflicts +: Mixed", only="vostok", title="the conflict in brokerStatus", patient=True)
    yield case("!stop Mixed")


# Those tools split into numbers.
SPEED = r" +: [0-9.]+ [0-9.]+ [0-9.]+$"


def lite():
    """A parent topic without lite topics, and a group without members."""
    yield case("updateTopic -b {b} -t Parent -r 4 -w 4 -a +message.type=LITE,+lite.topic.expiration=60", "^create topic to {b} success", needed=True)
    yield case("updateSubGroup -b {b} -g LiteG --attributes +lite.bind.topic=Parent", "create subscription group to {b} success", needed=True)
    yield case("topicRoute -t Parent", '"brokerName":"broker-a"', patient=True, title="topicRoute of a parent topic", needed=True)
    yield case("getBrokerLiteInfo -b {b} -d", "^{b} .* 0 +0 +", r"Topic Meta: \{.Parent.:60\}", r"Group Meta: \{.Parent.:\[.LiteG.\]\}")
    yield case("getParentTopicInfo -p Parent", "Parent Topic Info: .Parent.", r"^broker-a +60 +0 +\d+ +\[LiteG\]")
    yield case("getLiteTopicInfo -p Parent -l a -s", r"Lite Topic Info: .Parent. .a. .%LMQ%\$Parent\$a.", "^broker-a +0 +0 +- +true +0")
    yield case("getLiteClientInfo -p Parent -g LiteG -c c -s", "Lite Client Info: .Parent. .LiteG. .c.", "^broker-a +N/A +N/A +N/A")
    yield case("getLiteGroupInfo -p Parent -g LiteG", "Lite Group Info: .LiteG. .Parent.", "Total Lag Count: 0")
    yield case("getLiteGroupInfo -p Parent -g LiteG -l a", "^broker-a +- +- +- +-")
    yield case("triggerLiteDispatch -p Parent -g LiteG", "^broker-a +dispatched")


def brokers():
    yield case("clusterList", r"^DefaultCluster +broker-a +0 +{b} +V5_5_0 +[0-9.]+\(0,0ms\) +[0-9.]+\(0,0ms\|0,0ms\) +[0-9]+-[0-9]+\(.*\) +0 +[0-9.]+ +0\.[0-9]+ +true")
    yield case("clusterList -m", "^DefaultCluster +broker-a +0 +0 +[0-9]{2,} +[0-9]{2,}")
    yield case("brokerStatus -b {b}", "brokerVersionDesc +: V5_5_0", "bootTimestamp +: [0-9]{13}", "msgPutTotalTodayNow +: [0-9]{2,}", "msgGetTotalTodayNow +: [0-9]{2,}",
               "earliestMessageTimeStamp +: [0-9]{13}", "runtime +: . 0 days", "commitLogMaxOffset +: [0-9]{5}", "remainHowManyDataToFlush", "sendThreadPoolQueueCapacity +: 10000")
    yield case("brokerStatus -c DefaultCluster", "^{b} +putTps +:")
    yield case("brokerStatus -b {b}", "brokerVersion +: [0-9]+$", *(f"{name}{SPEED}" for name in ("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps")),
               only="vostok", title="brokerStatus: numbers wherever tools expect some")
    yield case("getBrokerConfig -b {b}", "^=+{b}=+$", "brokerName += +broker-a", "autoCreateTopicEnable += +true")
    yield case("getBrokerConfig -c DefaultCluster", "=+Master: {b}=+", "brokerRole += +ASYNC_MASTER")
    yield case("updateBrokerConfig -b {b} -k autoCreateTopicEnable -v false", "update broker config success, {b}", check=kept("autoCreateTopicEnable=false"))
    yield case("getBrokerConfig -b {b}", "autoCreateTopicEnable += +false", title="getBrokerConfig after a change")
    yield case("updateBrokerConfig -c DefaultCluster -k maxMessageSize -v 1000", "update broker config success, {b}", check=kept("maxMessageSize=1000"))
    yield case("updateBrokerConfig -b {b} -k maxMessageSize -v 4194304", "success")
    yield case("updateBrokerConfig -b {b} -k brokerConfigPath -v /tmp/x", "CODE: 16  DESC: Can not update config in black list", fails=True)
    yield case("updateBrokerConfig -b {b} -k noSuchSetting -v 1", "update broker config success, {b}")
    yield case("updateBrokerConfig -b {b} -k maxMessageSize -v many", "CODE: 29 .*expected a number of", fails=True, only="vostok")
    yield case("updateBrokerConfig -b {b} -k traceTopicEnable -v false", "update broker config success, {b}", check=kept("traceTopicEnable=false"))
    yield case("updateBrokerConfig -b {b} -k storePathRootDir -v /tmp/x", "CODE: 16 ", fails=True, only="vostok")
    yield case("deleteExpiredCommitLog -b {b}", "^success")
    yield case("deleteExpiredCommitLog -c DefaultCluster", "^success")
    yield case("cleanExpiredCQ -b {b}", "^success")
    yield case("cleanUnusedTopic -b {b}", "^success")
    yield case("resetMasterFlushOffset -b {b} -o 10", "reset master flush offset to 10 success|success")
    yield case("updateColdDataFlowCtrGroupConfig -b {b} -g G -v 1000", "^updateColdDataFlowCtrGroupConfig success, {b}")
    yield case("removeColdDataFlowCtrGroupConfig -b {b} -g G", "^remove broker cold read threshold success, {b}")
    yield case("getColdDataFlowCtrInfo -b {b}", r'"runtimeTable":\{', r'"configTable":\{', '"cgColdReadThreshold":3145728', '"globalColdReadThreshold":104857600')
    yield case("setCommitLogReadAheadMode -b {b} -m 1", "set commitlog readahead mode success, mode: 1")
    yield case("haStatus -b {b}", "#MasterAddr\t{b}", "#MasterCommitLogMaxOffset\t[0-9]+", "#SlaveNum\t0", "#InSyncSlaveNum\t0")


def names():
    yield case("allocateMQ -t One -i 1.1.1.1,2.2.2.2", '"1.1.1.1":.{2}"brokerName":"broker-a"', '"2.2.2.2":')
    yield case("updateKvConfig -s NS -k K -v V", "create or update kv config to namespace success")
    yield case("deleteKvConfig -s NS -k K", "delete kv config from namespace success")
    yield case("updateOrderConf -t One -m put -v broker-a:4", r"update orderConf success. topic=.One., orderConf=.broker-a:4.")
    yield case("updateOrderConf -t One -m get", r"orderConf=.broker-a:4.")
    yield case("updateOrderConf -t One -m delete", "delete orderConf success")
    yield case("updateOrderConf -t One -m get", "CODE: 22", fails=True, title="updateOrderConf get after delete")
    yield case("wipeWritePerm -b broker-a", "wipe write perm of broker.broker-a. in name server.{n}. OK, [0-9]+")
    yield case("topicRoute -t One", '"perm":4', title="topicRoute after wipeWritePerm")
    yield case("addWritePerm -b broker-a", "add write perm of broker.broker-a. in name server.{n}. OK, [0-9]+")
    yield case("topicRoute -t One", '"perm":6', title="topicRoute after addWritePerm")
    yield case("getNamesrvConfig", "=+{n}=+", "listenPort += +[0-9]+")
    yield case("updateNamesrvConfig -k orderMessageEnable -v true", "update name server config success..{n}.", "orderMessageEnable : true")
    yield case("getNamesrvConfig", "orderMessageEnable += +true", title="getNamesrvConfig after a change")
    yield case("updateNamesrvConfig -k kvConfigPath -v /tmp/x", "CODE: 16  DESC: Can not update config in black list", fails=True)


def exports():
    yield case("exportMetadata -c DefaultCluster -f {dir}", "success", check=exported("metadata.json", '"One"', '"G"'))
    yield case("exportMetadata -b {b} -t -f {dir}", "success", check=exported("topic.json", '"One"'))
    yield case("exportMetadata -b {b} -g -f {dir}", "success", check=exported("subscriptionGroup.json", '"G"'))
    yield case("exportConfigs -c DefaultCluster -f {dir}", "success", check=exported("configs.json", "broker-a"))
    yield case("exportMetrics -c DefaultCluster -f {dir}", "success", check=exported("metrics.json", "broker-a"))


def later():
    """A topic is drained; of what Vostok does not serve yet, the answer says what and why; about users both say that there are none."""
    yield case("updateTopic -b {b} -t Drained -r 1 -w 1", "^create topic to {b} success", title="updateTopic before it is read-only")
    yield case("updateTopicPerm -b {b} -t Drained -p 4", "update topic perm from 6 to 4 in {b} success", title="updateTopicPerm to read-only", patient=True, again=SAME)
    # With a queue of its own choice the client asks for no route that may be written to.
    yield case("sendMessage -t Drained -p late -b broker-a -i 0", "^broker-a +0 +SEND_OK", title="sendMessage to a read-only topic")
    more = {"fails": True, "only": "vostok"}
    yield case("getSyncStateSet -a 127.0.0.1:1 -b broker-a", "RemotingConnectException: connect to 127.0.0.1:1 failed", **more)
    for words in ("listUser -b {b}", "getUser -b {b} -u someone", "getAcl -b {b} -s User:someone", "listAcl -b {b}"):
        yield case(words, "CODE: 1  DESC: ", fails=True)
    for words in ("switchTimerEngine -b {b} -e R",
                  "checkRocksdbCqWriteProgress -c DefaultCluster -t One"):
        yield case(words, "CODE: 3  DESC:  request type [0-9]+ not supported", **more)


def refused():
    """What Vostok does not serve is sent, and its refusal shown; part of it Java refuses as well."""
    yield case("addBroker -c {b} -b /no/such.conf", "CODE: 3  DESC:  request type 902 not supported", fails=True)
    yield case("removeBroker -c {b} -b DefaultCluster:broker-a:0", "CODE: 3  DESC:  request type 903 not supported", fails=True)
    more = {"fails": True, "only": "vostok"}
    yield case("exportPopRecord -b {b}", "Export broker records, brokerName=broker-a, brokerAddr={b}, dryRun=false")
    yield case("updateStaticTopic -b broker-a -t Fixed -qn 2", "request type 513 not supported", **more)
    yield case("remappingStaticTopic -b broker-a -t NoSuch", "No topic route to do the remapping", fails=True)
    yield case("rocksDBConfigToJson -c DefaultCluster -t topics", "RocksDBConfigToJsonCommand command failed", "request type 355 not supported", **more)
    yield case("exportMetadataInRocksDB -p /no/such -t topics", "RocksDB path is invalid", fails=True)
    yield case("dumpCompactionLog -f /no/such", "file /no/such not exist", fails=True)
    yield case("dumpCompactionLog -f {dir}/topics.json", lacks=["MSGID"], title="dumpCompactionLog of a file without messages")
    for words in ("copyUser -f {b} -t {b}", "copyAcl -f {b} -t {b}"):
        yield case(words, "CODE: 1  DESC: ", fails=True)


def ends():
    yield case("deleteSubGroup -b {b} -g G2 -r true", "delete subscription group .G2. from broker .{b}. success")
    yield case("getConsumerConfig -g G2", lacks=["groupName += +G2$"], title="getConsumerConfig after deleteSubGroup")
    yield case("deleteSubGroup -c DefaultCluster -g G", "delete subscription group .G. from broker .{b}. in cluster .DefaultCluster. success")
    yield case("deleteTopic -t Two -c DefaultCluster", "delete topic .Two. from cluster .DefaultCluster. success", "delete topic .Two. from NameServer success")
    yield case("topicList", lacks=["^Two$", "^%RETRY%G$"], title="topicList after deletions", patient=True)
