#include "jobs/log_tail.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../scratch.hpp"
#include "terminal_text.hpp"

using namespace trimtab::cli;

namespace {

using Lines = std::vector<std::string>;

void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

}  // namespace

TEST_CASE("whole lines are told once, as they come", "[log_tail]") {
  const Scratch scratch;
  const std::string path = scratch.path("rank-0.log");
  LogTail tail(path);
  CHECK(tail.new_lines().empty());  // there is none yet
  append(path, "one\ntw");
  CHECK(tail.new_lines() == Lines{"one"});
  CHECK(tail.new_lines().empty());
  append(path, "o\n\nthree\n");
  CHECK(tail.new_lines() == Lines{"two", "", "three"});
}

TEST_CASE("a log that was cut, or is another launch's, is read from its beginning", "[log_tail]") {
  const Scratch scratch;
  const std::string path = scratch.path("rank-0.log");
  LogTail tail(path);
  append(path, "first launch, line 1\nhalf of a li");
  CHECK(tail.new_lines() == Lines{"first launch, line 1"});
  std::filesystem::resize_file(path, 0);
  append(path, "cut\n");
  CHECK(tail.new_lines() == Lines{"cut"});
  std::filesystem::rename(path, path + ".previous");
  append(path, "second launch\n");
  CHECK(tail.new_lines() == Lines{"second launch"});
}

TEST_CASE("what a launch said last is told, though the next one's log has its place already", "[log_tail]") {
  const Scratch scratch;
  const std::string path = scratch.path("rank-0.log");
  LogTail tail(path);
  append(path, "one\n");
  CHECK(tail.new_lines() == Lines{"one"});
  append(path, "two\nthe last, without an end");
  std::filesystem::rename(path, path + ".previous");
  append(path, "of the next launch\nand no e");
  CHECK(tail.new_lines() == Lines{"two"});
  CHECK(tail.new_lines() == Lines{"the last, without an end", "of the next launch"});
  append(path, "nd");
  CHECK(tail.rest() == Lines{"and no end"});
  CHECK(tail.rest().empty());
}

TEST_CASE("text of several lines keeps them, and loses what a terminal would obey", "[log_tail]") {
  CHECK(printable_lines("Traceback:\n  File \"a.py\"\n\x1b[2JValueError") ==
        "Traceback:\n    File \"a.py\"\n   [2JValueError");
  CHECK(printable_lines("one") == "one");
}
