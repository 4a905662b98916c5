#include "local/local_frames.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "base/random.hpp"

using namespace trimtab::net;

namespace {

std::vector<std::string> cut_all(LocalFrameCutter& cutter) {
  std::vector<std::string> frames;
  while (auto frame = cutter.next()) frames.push_back(frame->json);
  return frames;
}

}  // namespace

TEST_CASE("frames come out as they went in, however the bytes are divided") {
  const std::uint64_t seed = 99;
  INFO("seed " << seed);
  trimtab::Random random(seed);
  std::string bytes;
  std::vector<std::string> sent;
  for (int i = 0; i < 50; ++i) {
    sent.emplace_back(1 + random.below(300), static_cast<char>('a' + i % 26));
    bytes += frame_for(sent.back());
  }
  LocalFrameCutter cutter;
  std::vector<std::string> got;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto piece = bytes.substr(at, 1 + random.below(200));
    at += piece.size();
    cutter.add(piece);
    for (auto& frame : cut_all(cutter)) got.push_back(std::move(frame));
  }
  CHECK(got == sent);
  CHECK_FALSE(cutter.holds_a_part());
}

TEST_CASE("a length of zero or beyond a mebibyte breaks the stream") {
  for (const auto& head : {std::string(4, '\0'), std::string("\x01\x00\x10\x00", 4), std::string(4, '\xff')}) {
    LocalFrameCutter cutter;
    cutter.add(head);
    CHECK_FALSE(cutter.next());
    CHECK(cutter.broken().find("1048576") != std::string::npos);
    cutter.add(frame_for("{}"));
    CHECK_FALSE(cutter.next());
  }
}

TEST_CASE("a frame of exactly a mebibyte passes") {
  LocalFrameCutter cutter;
  cutter.add(frame_for(std::string(kMaxLocalFrameBytes, 'x')));
  const auto frame = cutter.next();
  REQUIRE(frame);
  CHECK(frame->json.size() == kMaxLocalFrameBytes);
  CHECK(frame->ends_the_bytes);
}

TEST_CASE("what a large frame took is given back once it is out") {
  LocalFrameCutter cutter;
  const std::string large(200'000, 'x');
  cutter.add(frame_for(large).substr(0, 150'000));
  CHECK_FALSE(cutter.next());
  CHECK(cutter.held_bytes() >= 150'000 - kSmallBuffer);
  cutter.add(frame_for(large).substr(150'000) + frame_for("y"));
  CHECK(cutter.next()->json == large);
  CHECK(cutter.held_bytes() == 0);
  CHECK(cutter.next()->json == "y");
}
