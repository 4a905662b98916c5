#include "agents/membership.hpp"

#include <catch2/catch.hpp>
#include <functional>

#include "../../device_memory_cases.hpp"
#include "schema/fingerprint.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

std::string fingerprint(const std::string& cpu) {
  Fingerprint one;
  one.device["cpu"] = cpu;
  return to_json(one);
}

Introduction hello(const std::string& node, const std::string& instance = "", const std::string& cpu = "fast",
                   const std::string& tenant = "") {
  return {kSpokenVersions, "1.0", node, instance.empty() ? "of " + node : instance, 2, 1000, fingerprint(cpu),
          tenant,          "",    ""};
}

Job job(std::int32_t ranks, Bytes limit = 0) {
  Job one;
  one.world_size = ranks;
  one.memory_limit = limit;
  return one;
}

}  // namespace

TEST_CASE("a node is lost when it has been silent for more than ten seconds, and once") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0"), 1).ok());
  clock.advance(std::chrono::seconds(9));
  members.heard(1);
  clock.advance(std::chrono::seconds(10));
  CHECK(members.expire().empty());
  clock.advance(Nanoseconds(1));
  CHECK(members.expire() == std::vector<std::string>{"n0"});
  CHECK(members.expire().empty());
  CHECK(members.by_node("n0")->lost);
  REQUIRE(members.join(hello("n0"), 2).ok());
  CHECK_FALSE(members.by_node("n0")->lost);
}

TEST_CASE("while nobody listened no node was silent") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0"), 1).ok());
  REQUIRE(members.join(hello("n1"), 2).ok());
  clock.advance(std::chrono::seconds(12));
  members.heard(2);
  members.stood_still(std::chrono::seconds(11));
  CHECK(members.expire().empty());
  clock.advance(std::chrono::seconds(10));
  CHECK(members.expire() == std::vector<std::string>{"n0"});
  clock.advance(Nanoseconds(1));
  CHECK(members.expire() == std::vector<std::string>{"n1"});
}

TEST_CASE("two nodes that are connected with one instance are copies") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0", "one"), 1).ok());
  REQUIRE(members.join(hello("n1", "two"), 2).ok());
  CHECK_FALSE(members.is_copy("n1"));
  REQUIRE(members.join(hello("n2", "one"), 3).ok());
  CHECK(members.is_copy("n2"));
  // An agent whose node has a new name.
  members.disconnected(1);
  CHECK_FALSE(members.is_copy("n2"));
}

TEST_CASE("where there are too many names the one that is lost for longest is forgotten, and no other") {
  ManualClock clock;
  Membership members(clock, kNodeTimeout, 3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE(members.join(hello("n" + std::to_string(i)), i + 1).ok());
    clock.advance(std::chrono::seconds(1));
  }
  CHECK_THAT(members.join(hello("n3"), 4).error().message, Catch::Contains("knows 3 nodes, none of them lost"));
  CHECK(members.by_peer(4) == nullptr);
  (void)members.said_kill_switch(1, true);
  for (const std::uint64_t peer : {1, 2, 3}) members.disconnected(peer);
  clock.advance(std::chrono::seconds(30));
  REQUIRE(members.expire().size() == 3);
  const auto joined = members.join(hello("n3"), 4);
  REQUIRE(joined.ok());
  CHECK(joined->forgotten == "n1");
  CHECK(members.by_node("n0") != nullptr);  // its switch is thrown
  CHECK(members.by_node("n1") == nullptr);
  CHECK(members.by_node("n2") != nullptr);
  CHECK(members.join(hello("n2"), 5)->forgotten.empty());  // known: needs no room
  CHECK(members.by_node("n0") != nullptr);
}

TEST_CASE("a fingerprint of more than 64 KiB is refused") {
  ManualClock clock;
  Membership members(clock);
  const auto joined = members.join(hello("n0", "", std::string(70'000, 'c')), 1);
  CHECK_THAT(joined.error().message, Catch::Contains("at most 65536 are read"));
  CHECK(members.members().empty());
}

TEST_CASE("a jump of the wall clock loses nobody") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0"), 1).ok());
  clock.jump_wall(std::chrono::hours(48));
  CHECK(members.expire().empty());
}

TEST_CASE("an agent that reconnects takes its former connection's place") {
  ManualClock clock;
  Membership members(clock);
  CHECK(members.join(hello("n0"), 1)->former == 0);
  CHECK(members.join(hello("n0"), 2)->former == 1);
  CHECK(members.by_peer(1) == nullptr);
  CHECK(members.by_peer(2)->node == "n0");
  members.disconnected(1);  // the former connection's late end
  CHECK(members.by_node("n0")->peer == 2);
}

TEST_CASE("a peer is the node that it named last") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0"), 1).ok());
  CHECK(members.join(hello("n1"), 1)->former == 0);
  CHECK(members.by_peer(1)->node == "n1");
  CHECK(members.by_node("n0")->peer == 0);
  CHECK(members.join(hello("n1"), 1)->former == 0);  // the same again
  CHECK(members.by_peer(1)->node == "n1");
  CHECK(members.by_peer(0) == nullptr);
  members.heard(7);  // nobody
  members.disconnected(1);
  CHECK(members.by_peer(1) == nullptr);
  CHECK_FALSE(members.said_kill_switch(1, true));
}

TEST_CASE("a node name that is in use is refused to another agent until its holder is gone") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0", "a"), 1).ok());
  const auto refused = members.join(hello("n0", "b"), 2);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("taken") != std::string::npos);
  members.disconnected(1);
  CHECK(members.join(hello("n0", "b"), 3).ok());
}

TEST_CASE("names that would spoil a log, or that are too long, are refused in words that do not") {
  ManualClock clock;
  Membership members(clock);
  const auto refusal = [&](const std::function<void(Introduction&)>& spoil) {
    Introduction one = hello("n0");
    spoil(one);
    const auto joined = members.join(one, 1);
    return joined.ok() ? std::string("taken") : joined.error().message;
  };
  const std::string node = refusal([](Introduction& one) { one.node = "n0\nnode n1 is lost\x1b[2J"; });
  CHECK_THAT(node, Catch::Contains("an agent's node name needs 1 to 255 bytes without control characters"));
  CHECK(node.find('\n') == std::string::npos);
  CHECK(node.find('\x1b') == std::string::npos);
  CHECK_THAT(refusal([](Introduction& one) { one.release = "1.0\n"; }), Catch::Contains("agent's release"));
  CHECK_THAT(refusal([](Introduction& one) { one.release = std::string(65, '1'); }), Catch::Contains("release"));
  CHECK_THAT(refusal([](Introduction& one) { one.instance = std::string(65, 'a'); }), Catch::Contains("instance id"));
  CHECK_THAT(refusal([](Introduction& one) { one.instance = "\xc2\x9b"; }), Catch::Contains("instance id"));
  CHECK_THAT(refusal([](Introduction& one) { one.tenant = std::string(65, 'a'); }), Catch::Contains("tenant"));
  CHECK_THAT(refusal([](Introduction& one) { one.node = std::string(1 << 20, 'n'); }), Catch::Contains("1048576"));
  CHECK(members.members().empty());
  CHECK(refusal([](Introduction& one) { one.node = "n\xc3\xb6rd"; }) == "taken");
}

TEST_CASE("no further job is placed on a node that is barred, until it is not or comes again") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0"), 1).ok());
  REQUIRE(members.place(job(2), "ana"));
  CHECK(members.bar(1, true));
  CHECK_FALSE(members.bar(1, true));
  CHECK_FALSE(members.place(job(2), "ana"));
  CHECK_FALSE(members.place_more(job(4), "ana", {}));
  CHECK(members.serves("n0", "ana"));  // what is there already
  CHECK_THAT(members.kept_from(job(2), "ana"), Catch::Contains("do not show whose jobs they run"));
  CHECK(members.bar(1, false));
  CHECK(members.place(job(2), "ana"));
  CHECK(members.bar(1, true));
  REQUIRE(members.join(hello("n0"), 2).ok());
  CHECK(members.place(job(2), "ana"));
  CHECK_FALSE(members.bar(7, true));  // nobody's
}

TEST_CASE("a tenant's agent runs its jobs alone, and an agent of nobody's everybody's") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("a0", "", "fast", "ana"), 1).ok());
  REQUIRE(members.join(hello("b0", "", "fast", "bob"), 2).ok());
  const auto node_of = [&](const std::string& tenant) { return members.place(job(2), tenant)->nodes.at(0).node; };
  CHECK(node_of("ana") == "a0");
  CHECK(node_of("bob") == "b0");
  CHECK_FALSE(members.place(job(2), "*"));  // nobody's in particular is not hers
  CHECK_FALSE(members.place(job(4), "ana"));
  CHECK_THAT(members.kept_from(job(4), "ana"), Catch::Contains("needs 4 devices") &&
                                                   Catch::Contains("tenant ana have 2") &&
                                                   Catch::Contains("more are on nodes that serve other tenants alone"));
  CHECK_THAT(members.kept_from(job(2), "eve"), Catch::Contains("tenant eve have 0"));
  CHECK(members.kept_from(job(2), "ana").empty());
  CHECK_FALSE(members.place_more(job(4), "ana", {{"a0", 0, 2}}));
  REQUIRE(members.join(hello("c0"), 3).ok());
  CHECK(node_of("eve") == "c0");
  CHECK(members.place_more(job(4), "ana", {{"a0", 0, 2}})->joined == std::vector<NodeShare>{{"c0", 2, 2}});
  CHECK(members.serves("c0", "eve"));
  CHECK_FALSE(members.serves("a0", "eve"));
  CHECK_FALSE(members.serves("nobody", "eve"));
}

TEST_CASE("introductions that cannot be are refused") {
  ManualClock clock;
  Membership members(clock);
  Introduction one = hello("n0");
  one.versions = {2, 2};
  CHECK_FALSE(members.join(one, 1).ok());
  one = hello("");
  CHECK_FALSE(members.join(one, 1).ok());
  one = hello("n0");
  one.devices = 0;
  CHECK_FALSE(members.join(one, 1).ok());
  one = hello("n0");
  one.fingerprint_json = "nonsense";
  CHECK_FALSE(members.join(one, 1).ok());
  CHECK(members.members().empty());
}

TEST_CASE("a plan may take what the job's limit and the device both allow") {
  for (const test::DeviceMemoryCase& one : test::kDeviceMemoryCases) {
    ManualClock clock;
    Membership members(clock);
    Introduction node = hello("n0");
    node.memory_bytes = one.device;
    REQUIRE(members.join(node, 1).ok());
    CHECK(members.place(job(2, one.limit), "*")->cluster.nodes[0].memory_bytes == one.memory);
  }
}

TEST_CASE("a job's devices are those of the first nodes by name, with the smaller memory limit") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("b"), 1).ok());
  REQUIRE(members.join(hello("a"), 2).ok());
  const auto placed = members.place(job(3, 700), "*");
  REQUIRE(placed);
  const Placement& placement = *placed;
  CHECK(placement.nodes == std::vector<NodeShare>{{"a", 0, 2}, {"b", 2, 1}});
  CHECK(placement.cluster.devices() == 3);
  CHECK(placement.cluster.nodes[0].memory_bytes == 700);
  CHECK(members.place(job(2), "*")->cluster.nodes[0].memory_bytes == 1000);
  CHECK(placement.cluster.links[0].level == "intra_node");
}

TEST_CASE("a job waits while there are too few devices") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("a"), 1).ok());
  CHECK_FALSE(members.place(job(3), "*"));
  REQUIRE(members.join(hello("b"), 2).ok());
  CHECK(members.place(job(3), "*"));
  members.disconnected(2);
  CHECK_FALSE(members.place(job(3), "*"));
}

TEST_CASE("a job is on nodes of one hardware where they suffice, else on those of most devices first") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("a", "", "slow"), 1).ok());
  REQUIRE(members.join(hello("b"), 2).ok());
  REQUIRE(members.join(hello("c"), 3).ok());
  const auto alike = members.place(job(4), "*");
  REQUIRE(alike);
  CHECK(alike->nodes == std::vector<NodeShare>{{"b", 0, 2}, {"c", 2, 2}});
  const auto mixed = members.place(job(5), "*");
  REQUIRE(mixed);
  CHECK(mixed->nodes == std::vector<NodeShare>{{"b", 0, 2}, {"c", 2, 2}, {"a", 4, 1}});
  CHECK(mixed->fingerprint == mixed->cluster.nodes[1].fingerprint);
  CHECK(mixed->fingerprint != mixed->cluster.nodes[2].fingerprint);
}

TEST_CASE("nodes that could join a job stand behind its own, as many as it asked for, and with a key of their own") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0"), 1).ok());
  REQUIRE(members.join(hello("n2"), 2).ok());
  const std::vector<NodeShare> present{{"n2", 0, 2}};
  CHECK_FALSE(members.place_more(job(2), "*", present));
  const auto one = members.place_more(job(4, 500), "*", present);
  REQUIRE(one);
  CHECK(one->nodes == std::vector<NodeShare>{{"n2", 0, 2}, {"n0", 2, 2}});
  CHECK(one->joined == std::vector<NodeShare>{{"n0", 2, 2}});
  CHECK(one->cluster.nodes[1].memory_bytes == 500);
  REQUIRE(members.join(hello("n1", "", "slow"), 3).ok());
  const auto two = members.place_more(job(5), "*", present);
  REQUIRE(two);
  CHECK(two->joined == std::vector<NodeShare>{{"n0", 2, 2}, {"n1", 4, 1}});
  CHECK(two->key != one->key);
  CHECK(two->cluster.nodes[2].fingerprint != two->cluster.nodes[0].fingerprint);
  members.disconnected(2);
  CHECK_FALSE(members.place_more(job(5), "*", present));
}

TEST_CASE("two jobs get no device in common unasked, and the one that waits is told of the other") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("a"), 1).ok());
  REQUIRE(members.join(hello("b"), 2).ok());
  members.hold(1, {"old", "*"}, {{"a", 0, 2}, {"b", 2, 1}});
  CHECK(members.place(job(3), "*", 1));  // its own are no others'
  CHECK(members.place(job(1), "*", 2)->nodes == std::vector<NodeShare>{{"b", 0, 1}});
  CHECK_FALSE(members.place(job(2), "*", 2));
  const std::string why = members.kept_from(job(2), "*", 2);
  CHECK_THAT(why, Catch::Contains("it needs 2 devices, and 1 of 4 are free: others are of old"));
  CHECK_THAT(why, Catch::Contains("share_devices = true"));
  CHECK_FALSE(members.place_more(job(4), "*", {{"b", 0, 2}}, 2));
  Job shares = job(2);
  shares.share_devices = true;
  CHECK(members.place(shares, "*", 2));
  Job submitted = job(4);
  submitted.submit = {"sbatch"};
  CHECK(members.place(submitted, "*", 2));  // the scheduler has the devices
  members.hold(1, {}, {});
  CHECK(members.place(job(4), "*", 2));
  CHECK(members.kept_from(job(4), "*", 2).empty());
}

TEST_CASE("a job that waits is told of no more of other tenants than how many hold devices that it could have") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0", "", "fast", "ana"), 1).ok());
  REQUIRE(members.join(hello("n1", "", "fast", "bob"), 2).ok());
  members.hold(1, {"hers", "ana"}, {{"n0", 0, 2}});
  members.hold(2, {"his", "bob"}, {{"n1", 0, 2}});
  CHECK_THAT(members.kept_from(job(2), "ana", 3), Catch::Contains("0 of 2 are free: others are of hers. "));
  REQUIRE(members.join(hello("n2"), 3).ok());
  members.hold(4, {"third", "cho"}, {{"n2", 0, 2}});
  CHECK_THAT(members.kept_from(job(2), "ana", 3), Catch::Contains("others are of hers and a job of another tenant. "));
  members.hold(1, {}, {});
  members.hold(4, {}, {});
  CHECK_THAT(members.kept_from(job(5), "ana", 3), Catch::Contains("nodes that serve tenant ana have 4; more are on"));
}

TEST_CASE("a token uses names of its own alone: those that it used first, while it is known") {
  ManualClock clock;
  Membership members(clock);
  std::string gone;
  members.names().know({}, [&](const std::string& owner, const std::string&) { return owner != gone; }, {});
  const auto join = [&](const std::string& node, const std::string& owner, std::uint64_t peer) {
    Introduction said = hello(node);
    said.owner = owner;
    const auto joined = members.join(said, peer);
    return joined.ok() ? "" : joined.error().message;
  };
  CHECK(join("n0", "anas", 1).empty());
  members.disconnected(1);
  CHECK_THAT(join("n0", "bobs", 2),
             Catch::Contains("is another token's, which used it first") && !Catch::Contains("anas"));
  CHECK(join("n0", "anas", 3).empty());
  CHECK(join("n1", "bobs", 4).empty());
  gone = "anas";
  CHECK(join("n0", "bobs", 5).empty());
  // Where no token vouches for names, as under TLS, certificates do.
  CHECK(join("n2", "", 6).empty());
  CHECK(join("n2", "", 7).empty());
}

TEST_CASE("a token has bounded names") {
  ManualClock clock;
  Membership members(clock);
  const auto join = [&](std::size_t number, const std::string& owner) {
    Introduction said = hello("n" + std::to_string(number));
    said.owner = owner;
    return members.join(said, number + 1);
  };
  for (std::size_t i = 0; i < kMostNodesOfToken; ++i) REQUIRE(join(i, "anas").ok());
  const auto beyond = join(kMostNodesOfToken, "anas");
  REQUIRE_FALSE(beyond.ok());
  CHECK_THAT(beyond.error().message, Catch::Contains("needs a token of its own"));
  CHECK(join(0, "anas").ok());
  CHECK(join(kMostNodesOfToken, "bobs").ok());
}

TEST_CASE("a lost node that no job has had is forgotten after an hour, and its token may bring another") {
  ManualClock clock;
  Membership members(clock, kNodeTimeout, kMostNodes, 2);
  const auto join = [&](const std::string& name, std::uint64_t peer) {
    Introduction said = hello(name);
    said.owner = "anas";
    return members.join(said, peer);
  };
  REQUIRE(join("n0", 1).ok());
  REQUIRE(join("n1", 2).ok());
  members.hold(7, {"gpt", "*"}, {{"n0", 0, 1}});
  members.hold(7, {}, {});
  CHECK_THAT(join("n2", 3).error().message, Catch::Contains("max_nodes_of_token"));
  for (const std::uint64_t peer : {1, 2}) members.disconnected(peer);
  clock.advance(kNodeTimeout + std::chrono::seconds(1));
  REQUIRE(members.expire().size() == 2);
  CHECK(members.forget_unused().empty());
  clock.advance(kUnusedKept);
  CHECK(members.forget_unused() == std::vector<std::string>{"n1"});
  CHECK(members.by_node("n0") != nullptr);
  CHECK(join("n2", 4).ok());
}

TEST_CASE("after a restart a token does not give up the names of its nodes, and those of jobs count as there") {
  ManualClock clock;
  Membership members(clock, kNodeTimeout, kMostNodes, 2);
  members.names().know({{"anas", {"n0", "n1"}}}, {}, {});
  const bool launched_here = GENERATE(true, false);
  members.hold(7, {"gpt", "ana"}, {{"n0", 0, 1}}, launched_here);
  const auto join = [&](const std::string& name, std::uint64_t peer, const std::string& owner) {
    Introduction said = hello(name);
    said.owner = owner;
    return members.join(said, peer);
  };
  REQUIRE(join("n2", 1, "anas").ok());
  CHECK_THAT(join("n3", 2, "anas").error().message, Catch::Contains("Those of jobs that are not over are kept"));
  CHECK_THAT(join("n0", 3, "bobs").error().message, Catch::Contains("is another token's"));
  CHECK_THAT(join("n1", 4, "bobs").error().message, Catch::Contains("is another token's"));
  CHECK(join("n0", 5, "anas").ok());
  CHECK(members.by_node("n0")->used == launched_here);
  members.hold(7, {}, {});
  members.disconnected(5);
}

TEST_CASE("a job that has no devices of ours takes none from others, and is not told as their holder") {
  ManualClock clock;
  Membership members(clock);
  REQUIRE(members.join(hello("n0"), 1).ok());
  members.hold(7, {"watched", "ana"}, {{"n0", 0, 2}}, false);
  CHECK(members.place(job(2), "ana").has_value());
  members.hold(8, {"own", "ana"}, {{"n0", 0, 1}});
  members.hold(7, {"watched", "ana"}, {{"n0", 0, 1}}, false);
  CHECK_FALSE(members.place(job(2), "ana").has_value());
  CHECK_THAT(members.kept_from(job(2), "ana"), Catch::Contains("own") && !Catch::Contains("watched"));
  members.hold(7, {}, {});
  members.hold(8, {}, {});
  CHECK(members.place(job(2), "ana").has_value());
}
