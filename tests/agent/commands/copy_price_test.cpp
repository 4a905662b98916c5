// What a trial's copy of a checkpoint takes is known before it is made, and what may not be copied is refused.

#include "commands/copy_price.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../run_loop.hpp"
#include "../temporary_directory.hpp"
#include "base/descriptor.hpp"
#include "commands/checkpoint_watch.hpp"
#include "commands/scratch.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace fs = std::filesystem;

namespace {

constexpr Bytes kGiB = Bytes{1} << 30;
constexpr Bytes kTiB = Bytes{1} << 40;

struct Saved {
  TemporaryDirectory at;
  CopyWatch watch;
  std::string path = at / "saved";
  Scratch scratch{at / "state", "j", "trial"};

  Saved() { fs::create_directories(path + "/step-1"); }

  void sparse(const std::string& name, Bytes size) const {
    std::ofstream(path + "/" + name).close();
    fs::resize_file(path + "/" + name, static_cast<std::uintmax_t>(size));
  }
  CopyPrice price(CopyPricer pricer) {
    const auto price = pricer.price(path, watch);
    REQUIRE(price);
    return *price;
  }
};

CopyPricer::Machine machine_with(const CopySample& sample, const Room& room, const std::string& mounts = "") {
  return {[room](const std::string&) { return std::optional(room); }, [mounts] { return mounts; },
          [sample](const CopyContents&, const std::string&, CopyWatch&) { return Result<CopySample>(sample); }};
}

bool has_reflinks(const std::string& directory) {
  std::ofstream(directory + "/one") << "x";
  const Descriptor in(::open((directory + "/one").c_str(), O_RDONLY | O_CLOEXEC));
  const Descriptor out(::open((directory + "/two").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return ::ioctl(out.get(), FICLONE, in.get()) == 0;
}

}  // namespace

TEST_CASE("the price is of the very bytes that a copy has, links out of the checkpoint followed", "[copy_price]") {
  Saved saved;
  REQUIRE(write_file(saved.path + "/step-1/weights", "0123456789").ok());
  fs::create_directories(saved.at / "shared");
  REQUIRE(write_file(saved.at / "shared/vocabulary", "12345").ok());
  fs::create_directory_symlink(saved.at / "shared", saved.path + "/shared");
  fs::create_symlink("step-1", saved.path + "/latest");
  const auto contents = contents_of(saved.path, saved.watch);
  REQUIRE(contents.ok());
  CHECK(contents->files == 2);
  CHECK(contents->bytes == 15);
  CHECK(fs::path(contents->largest).filename() == "weights");
  REQUIRE(copy_tree(saved.path, saved.at / "copy", saved.watch).ok());
  CHECK(saved.watch.bytes == 15);
  const CopyPrice price = saved.price({saved.scratch, kTiB, std::nullopt});
  CHECK(price.contents == *contents);
  CHECK(price.refused.empty());
  CHECK(price.seconds > 0);
  CHECK(price.seconds < 60);
  CHECK(price.shared == has_reflinks(saved.at / "shared"));
  CHECK(fs::is_empty(saved.scratch.path()));  // what was copied to see is gone
}

TEST_CASE("a checkpoint beyond the limit is refused with its size, the limit and what to do", "[copy_price]") {
  Saved saved;
  saved.sparse("step-1/weights", 2 * kTiB);
  saved.sparse("step-1/optimizer", kTiB);
  const CopyPricer::Machine machine = machine_with({false, 1e9, 0}, {100 * kTiB, 90 * kTiB});
  const CopyPrice price = saved.price({saved.scratch, 512 * kGiB, std::nullopt, machine});
  CHECK(price.contents.bytes == 3 * kTiB);
  CHECK(price.seconds == Approx(static_cast<double>(3 * kTiB) / 1e9));
  CHECK_THAT(price.refused, Catch::Contains("3.00 TiB in 2 files") && Catch::Contains("512 GiB at most") &&
                                Catch::Contains("checkpoint_copy_limit") && Catch::Contains("fewer checkpoints"));
  CHECK(saved.price({saved.scratch, 4 * kTiB, std::nullopt, machine}).refused.empty());
}

TEST_CASE("a copy leaves a twentieth of the file system free, and has the room of the copy before it", "[copy_price]") {
  Saved saved;
  saved.sparse("step-1/weights", 100 * kGiB);
  const auto refused = [&](Bytes free) {
    return saved.price({saved.scratch, kTiB, std::nullopt, machine_with({false, 1e9, 0}, {1000 * kGiB, free})}).refused;
  };
  CHECK(refused(150 * kGiB).empty());
  CHECK_THAT(refused(149 * kGiB), Catch::Contains("100 GiB in 1 file") && Catch::Contains("room for 99.0 GiB") &&
                                      Catch::Contains("a twentieth of 1000 GiB stays free"));
  std::ofstream(saved.scratch.checkpoint()).close();
  fs::resize_file(saved.scratch.checkpoint(), 2 * kGiB);
  CHECK(refused(149 * kGiB).empty());
}

TEST_CASE("a copy that shares its blocks needs neither room nor the limit", "[copy_price]") {
  Saved saved;
  saved.sparse("step-1/weights", 2 * kTiB);
  const CopyPrice price = saved.price({saved.scratch, kGiB, std::nullopt, machine_with({true, 0, 0.25}, {kTiB, 0})});
  CHECK(price.shared);
  CHECK(price.refused.empty());
  CHECK(price.seconds == 0.25);
}

TEST_CASE("what a copy takes is told by the last one, else by what was copied to see and the files", "[copy_price]") {
  Saved saved;
  for (const char* name : {"step-1/a", "step-1/b"}) saved.sparse(name, kGiB / 2);
  const auto machine = machine_with({false, 1e8, 2}, {kTiB, kTiB});
  const double gib = static_cast<double>(kGiB);
  CHECK(saved.price({saved.scratch, kTiB, std::nullopt, machine}).seconds == Approx(gib / 1e8 + 4));
  CHECK(saved.price({saved.scratch, kTiB, 2e8, machine}).seconds == Approx(gib / 2e8));
}

TEST_CASE("an object store that poses as a folder is named", "[copy_price]") {
  Saved saved;
  saved.sparse("step-1/weights", kTiB);
  const std::string above = fs::canonical(saved.at.path()).string();
  const std::string mounts =
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "99 22 0:50 / " +
      above + " rw,nosuid shared:7 - fuse.s3fs s3fs rw,user_id=0\n";
  const CopyPrice price =
      saved.price({saved.scratch, kGiB, std::nullopt, machine_with({false, 1e8, 0}, {kTiB, kTiB}, mounts)});
  CHECK(price.store == "fuse.s3fs at " + above);
  CHECK_THAT(price.refused, Catch::Contains("of the object store fuse.s3fs at " + above));
}

TEST_CASE("the mount of a path is the nearest above it, the last of several, with its name in plain", "[copy_price]") {
  const std::string table =
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "23 22 0:40 / /mnt/a\\040b rw - fuse gcsfuse rw\n"
      "24 22 0:41 / /mnt/late rw - xfs /dev/sdb rw\n"
      "25 22 0:42 / /mnt/late rw master:3 propagate_from:2 - fuse.goofys bucket rw\n"
      "26 22 0:43 / /mnt/other rw - fuse.sshfs host:/ rw\n"
      "a line of something else\n";
  const auto store = [&](const char* path) { return object_store(place_of(path, table)); };
  CHECK(store("/mnt/a b/run") == "fuse.gcsfuse at /mnt/a b");
  CHECK(store("/mnt/late") == "fuse.goofys at /mnt/late");
  CHECK(store("/mnt/later").empty());
  CHECK(place_of("/mnt/later", table).type == "ext4");
  CHECK(store("/mnt/other/run").empty());
  CHECK(place_of("/x", "").type.empty());
  CHECK_FALSE(place_of("/", read_mountinfo()).type.empty());
}

TEST_CASE("a checkpoint that is whole is told with what its copy takes, and what is cut off with nothing",
          "[copy_price]") {
  Saved saved;
  const SystemClock clock;
  std::atomic<std::int64_t> sampled_ns{0};
  CopyPricer::Machine machine;
  machine.sample = [&](const CopyContents& contents, const std::string& path, CopyWatch& watch) {
    sampled_ns = clock.monotonic().count();
    return sample_copy(contents, path, watch);
  };
  net::EventLoop loop;
  std::vector<std::pair<bool, std::optional<CopyPrice>>> told;
  const auto take = [&](SaveDetector::News news, const CheckpointLook&, const std::optional<CopyPrice>& price) {
    const bool whole = news == SaveDetector::News::kWhole;
    told.emplace_back(whole, price);
  };
  bool ready = false;
  {
    const CheckpointWatch watch(loop, saved.path, {saved.scratch, kTiB, std::nullopt, machine}, take);
    // The first look is of what there is before.
    const auto write = loop.every(std::chrono::milliseconds(200), [&] {
      if (std::exchange(ready, true)) return;
      REQUIRE(write_file(saved.path + "/step-1/weights", "0123456789").ok());
    });
    REQUIRE(run_until(loop, [&] { return !told.empty() && told.back().first; }));
  }
  // It was priced while it settled: the news has not waited for that.
  CHECK(clock.monotonic() - Nanoseconds(sampled_ns) > SaveDetector::kSettled / 2);
  CHECK_FALSE(told.front().second);
  REQUIRE(told.back().second);
  CHECK(told.back().second->contents.bytes == 10);
  saved.watch.cancelled = true;
  CHECK_FALSE(CopyPricer(saved.scratch, kTiB, std::nullopt).price(saved.path, saved.watch));
  CHECK_FALSE(CopyPricer(saved.scratch, kTiB, std::nullopt).price(saved.at / "none", saved.watch));
}
