// Pickles are read as data: whatever else they hold is refused by its name, and nothing of it runs.

#include "published/pickle_document.hpp"

#include <catch2/catch.hpp>

#include "base/random.hpp"
#include "pickle_text.hpp"

using namespace trimtab;
using namespace trimtab::published;
using namespace trimtab::test;

namespace {

Result<PickleDocument> parse(const std::string& bytes) {
  return PickleDocument::parse({"cache.pkl", bytes});
}

void refuses(const std::string& bytes, const std::string& words) {
  const auto document = parse(bytes);
  INFO(words);
  REQUIRE_FALSE(document.ok());
  CHECK_THAT(document.error().message, Catch::Contains("cache.pkl: byte ") && Catch::Contains(words));
}

const PickleNode& child(const PickleDocument& document, const PickleNode& node, std::size_t index) {
  return document.at(node.children.at(index));
}

}  // namespace

TEST_CASE("a pickle's numbers, texts, lists and dictionaries are read as they are") {
  const auto document = parse(pickle_file(pickle_dictionary(
      {{"list", pickle_list({pickle_number(0.0078125), "K\x07", "M\x01\x02", "J\xfe\xff\xff\xff", "N", "\x88"})},
       {"numpy", pickle_numpy(172.001953125)},
       {"long", std::string("\x8a\x02\x00\x80", 4)},
       {"list", pickle_list({})}})));
  INFO((document.ok() ? "" : document.error().message));
  REQUIRE(document.ok());
  const PickleNode& root = document->root();
  REQUIRE(root.kind == PickleKind::kMapping);
  CHECK(document->find(root, "numpy")->number == 172.001953125);
  CHECK(document->find(root, "long")->number == -32768);
  CHECK(document->find(root, "list")->children.empty());  // the last one counts, as in Python
  CHECK(document->find(root, "absent") == nullptr);
  const PickleNode& list = child(*document, root, 1);
  CHECK(child(*document, list, 0).number == 0.0078125);
  CHECK(child(*document, list, 1).number == 7);
  CHECK(child(*document, list, 2).number == 513);
  CHECK(child(*document, list, 3).number == -2);
  CHECK(child(*document, list, 4).kind == PickleKind::kNone);
}

TEST_CASE("remembered values and the older protocols are read") {
  // Protocol 4: MEMOIZE and BINGET; protocol 2: BINPUT, GLOBAL and BINUNICODE.
  const auto four = parse(pickle_file("](" + pickle_number(2.5) + "\x94h" + std::string(1, '\0') + "e"));
  REQUIRE(four.ok());
  CHECK(child(*four, four->root(), 1).number == 2.5);
  const std::string type =
      std::string("cnumpy\ndtype\nq") + '\0' + "X" + std::string("\x02\0\0\0", 4) + "f8K" + '\0' + "K\x01\x87Rq\x01";
  const std::string bytes("\0\0\0\0\0\0\x04\x40", 8);
  const auto two =
      parse(std::string("\x80\x02") + "cnumpy.core.multiarray\nscalar\n" + type + "C\x08" + bytes + "\x86Rq\x02.");
  INFO((two.ok() ? "" : two.error().message));
  REQUIRE(two.ok());
  CHECK(two->root().number == 2.5);
}

TEST_CASE("names of code and calls are refused by name") {
  refuses("\x80\x04" + pickle_text("os") + pickle_text("system") + "\x93" + pickle_text("touch /tmp/owned") + "\x85R.",
          "\"os.system\", which is code");
  refuses("\x80\x02" + std::string("cposix\nsystem\n") + "X" + std::string("\x01\0\0\0", 4) + "x\x85R.",
          "\"posix.system\"");
  refuses("\x80\x02" + std::string("c__builtin__\neval\n."), "\"__builtin__.eval\"");
  refuses("\x80\x04" + pickle_text("numpy") + pickle_text("load") + "\x93.", "\"numpy.load\"");
  refuses("\x80\x04(i__builtin__\neval\n.", "INST");
  refuses("\x80\x04(o.", "OBJ");
  refuses("\x80\x04)\x81.", "NEWOBJ");
  refuses("\x80\x04)\x92.", "NEWOBJ_EX");
  refuses("\x80\x04Pid\n.", "PERSID");
  refuses("\x80\x04Q.", "BINPERSID");
  refuses("\x80\x04\x82\x01.", "EXT1");
  refuses("\x80\x04\xff.", "0xff");
  refuses("\x80\x04" + pickle_numpy(1, "numpy.core.multiarray", "_reconstruct") + ".", "_reconstruct");
  // A call of data, of a type, and a state for a list.
  refuses("\x80\x04" + pickle_text("x") + ")R.", "no name");
  refuses("\x80\x04" + pickle_list({}) + "}b.", "sets the state");
}

TEST_CASE("numpy's numbers must be of a known type and byte order") {
  std::string foreign = pickle_file(pickle_numpy(1));
  foreign.replace(foreign.find("f8"), 2, "c8");
  refuses(foreign, "f8, f4, i8 or i4");
  std::string big = pickle_file(pickle_numpy(1));
  big.replace(big.find("\x01<"), 2, "\x01>");
  refuses(big, "little-endian");
}

TEST_CASE("a pickle that ends early, goes on or is none is refused") {
  const std::string whole = pickle_file(pickle_dictionary({{"a", pickle_list({pickle_numpy(1), pickle_number(2)})}}));
  REQUIRE(parse(whole).ok());
  for (std::size_t end = 0; end < whole.size(); ++end) {
    INFO(end);
    CHECK_FALSE(parse(whole.substr(0, end)).ok());
  }
  refuses(whole + "x", "end of the file");
  refuses("op_name,forward\n", "begins with byte 0x80");
  refuses("\x80\x01N.", "protocol 2 to 5");
  refuses("\x80\x04.", "operand");
  refuses("\x80\x04NN.", "inside of a value");
  refuses("\x80\x04(N.", "inside of a value");
  refuses("\x80\x04N(.", "operand");
  refuses("\x80\x04u.", "mark");
  refuses("\x80\x04}(Nu.", "lacks its value");
  refuses("\x80\x04h\x05.", "not remembered");
  refuses("\x80\x04Nq\x05.", "numbered in turn");
  refuses("\x80\x04" + std::string("X\xff\xff\xff\xff") + "x.", "ends early");
}

TEST_CASE("deep nesting and hosts of values are bounded") {
  refuses("\x80\x04" + std::string(200, '(') + std::string(200, 't') + ".", "deeper than 100");
  refuses("\x80\x04" + std::string(2000001, 'N') + ".", "two million");
  // A list that holds itself is as long as it is.
  const auto cycle = parse(std::string("\x80\x04]\x94h") + '\0' + "a.");
  REQUIRE(cycle.ok());
  CHECK(cycle->root().children.size() == 1);
}

TEST_CASE("random damage to a pickle is refused or read, never worse") {
  constexpr std::uint64_t kSeed = 20261127;
  Random random(kSeed);
  const std::string whole = pickle_file(pickle_dictionary(
      {{"profiled_results", pickle_dictionary({{"a", pickle_list({pickle_numpy(1), pickle_number(2), "K\x01"})}})}}));
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = whole;
    for (std::uint64_t i = random.below(3); i < 3; ++i) {
      const std::size_t place = random.below(damaged.size());
      damaged[place] = static_cast<char>(random.below(256));
      if (random.below(4) == 0) damaged.insert(place, damaged.substr(random.below(damaged.size()), 5));
    }
    INFO("seed " << kSeed << ", round " << round);
    const auto document = parse(damaged);
    if (!document.ok()) CHECK_THAT(document.error().message, Catch::StartsWith("cache.pkl: byte "));
  }
}
