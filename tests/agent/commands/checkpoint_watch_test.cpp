#include "commands/checkpoint_watch.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

using News = SaveDetector::News;

// Looks each 100 ms, of a folder that changes when it is told to.
struct Folder {
  CheckpointLook look;
  Nanoseconds now{0};
  SaveDetector detector;

  Folder() { (void)see(); }
  News see() {
    now += std::chrono::milliseconds(100);
    return detector.add(now, look);
  }
  // How many looks until it is whole; 0 = it is not within four seconds.
  int until_whole() {
    for (int looks = 1; looks <= 40; ++looks) {
      if (see() == News::kWhole) return looks;
    }
    return 0;
  }
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("a checkpoint is whole once nothing was written to it for a while", "[checkpoint_watch]") {
  Folder folder;
  CHECK(folder.see() == News::kNothing);
  folder.look = {1, 100, 5, 0, false, false};
  CHECK(folder.see() == News::kBegun);
  folder.look.bytes = 200;
  CHECK(folder.see() == News::kNothing);  // it is begun once
  CHECK(folder.until_whole() == 15);
  CHECK(folder.until_whole() == 0);  // … and told once
}

TEST_CASE("a file that got its name at the end, or a tracker, says sooner that it is whole", "[checkpoint_watch]") {
  const bool renamed = GENERATE(false, true);
  Folder folder;
  folder.look = {1, 100, 5, renamed ? 0 : 5, renamed, false};
  CHECK(folder.see() == News::kBegun);
  CHECK(folder.until_whole() == 3);
}

TEST_CASE("files whose tracker still names the checkpoint before are not whole", "[checkpoint_watch]") {
  Folder folder;
  folder.look = {2, 100, 5, 5, false, false};
  CHECK(folder.see() == News::kBegun);
  CHECK(folder.until_whole() > 0);
  folder.look = {3, 200, 9, 5, false, false};
  CHECK(folder.see() == News::kBegun);
  CHECK(folder.until_whole() == 0);
  folder.look.tracker_ns = folder.look.changed_ns = 12;
  (void)folder.see();
  CHECK(folder.until_whole() > 0);
}

TEST_CASE("a file under a name for the time being keeps a checkpoint from being whole", "[checkpoint_watch]") {
  Folder folder;
  folder.look = {1, 100, 5, 0, false, true};
  CHECK(folder.see() == News::kBegun);
  CHECK(folder.until_whole() == 0);
}

TEST_CASE("a folder that does not rest for a minute is told once, and one that rests is not", "[checkpoint_watch]") {
  const bool rests = GENERATE(false, true);
  Folder folder;
  int told = 0;
  for (int look = 0; look < 1500; ++look) {
    if (!rests || look % 40 == 0) ++folder.look.bytes;
    folder.look.files = 1;
    if (folder.see() == News::kRestless) ++told;
  }
  CHECK(told == (rests ? 0 : 1));
}

TEST_CASE("what was there at the first look is no news", "[checkpoint_watch]") {
  Folder folder;
  folder.detector = {};
  folder.look = {4, 400, 7, 7, false, false};
  CHECK(folder.see() == News::kNothing);
  CHECK(folder.until_whole() == 0);
}

TEST_CASE("a look sums a folder's files, and knows trackers, renames and names for the time being",
          "[checkpoint_watch]") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/saved";
  CHECK(look_at_checkpoint(path) == CheckpointLook{});
  std::filesystem::create_directories(path + "/iter_10");
  write(path + "/iter_10/rank0.pt", "0123456789");
  CheckpointLook look = look_at_checkpoint(path);
  CHECK(look.files == 1);
  CHECK(look.bytes == 10);
  CHECK(look.latest == path + "/iter_10/rank0.pt");
  CHECK((look.tracker_ns == 0 && !look.unfinished));
  write(path + "/state.pt.new", "01");
  CHECK(look_at_checkpoint(path).unfinished);
  std::filesystem::rename(path + "/state.pt.new", path + "/state.pt");
  look = look_at_checkpoint(path);
  CHECK_FALSE(look.unfinished);
  CHECK(look.renamed);
  write(path + "/latest_checkpointed_iteration.txt", "10");
  look = look_at_checkpoint(path);
  CHECK(look.tracker_ns == look.changed_ns);
  CHECK(look_at_checkpoint(path + "/state.pt").files == 1);
}

TEST_CASE("logs in the folder of checkpoints keep none from being whole", "[checkpoint_watch]") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/outputs";
  std::filesystem::create_directories(path + "/checkpoint/step-20");
  write(path + "/checkpoint/step-20/.metadata", "0123");
  const CheckpointLook before = look_at_checkpoint(path);
  for (const char* name :
       {"structured_logs/rank_0.jsonl", "tb/events.out.tfevents.17.host.1.0", "metrics.csv", "train.log"}) {
    std::filesystem::create_directories(std::filesystem::path(path + "/" + name).parent_path());
    write(path + "/" + name, "a line");
    CHECK(look_at_checkpoint(path) == before);
  }
  CHECK(before.files == 1);
}
