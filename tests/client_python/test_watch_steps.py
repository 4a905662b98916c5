"""Plain PyTorch scripts, which know nothing of Trimtab, tell where their steps go."""
import unittest

from watched_job import HAS_TORCH, WatchedJobTest, part

LOOP = """
model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(samples(640), batch_size=32{loader}):
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    optimizer.step()
"""


@unittest.skipUnless(HAS_TORCH, "needs PyTorch")
class OneRank(WatchedJobTest):
    def test_a_plain_loop_tells_steps_parts_and_facts(self):
        job = self.run_job(LOOP.format(model="mlp()", loader="") + "torch.save(model, os.devnull)")
        hello = job.frames("hello")[0]
        self.assertEqual({name: hello[name] for name in ("job", "rank", "world_size", "watched", "launch", "step")},
                         {"job": "job", "rank": 0, "world_size": 1, "watched": True, "launch": 1, "step": 0})
        steps = job.steps()
        self.assertEqual([step["step"] for step in steps], list(range(20)))
        for step in steps:
            self.assertEqual((step["count"], step["microbatches"]), (32, 1))
            self.assertGreater(min(step["parts"][f"{name}_ns"] for name in ("data", "forward", "backward", "optimizer")), 0)
            self.assertTrue(0 < step["loss"] < 10)
        self.assertNotIn("tokens", steps[0])
        facts = job.facts()
        self.assertEqual({name: facts[name] for name in ("framework", "device", "dtype", "workers", "batch_size", "layers",
                                                         "accumulation", "parameters")},
                         {"framework": "torch", "device": "cpu", "dtype": "float32", "workers": 0, "batch_size": 32,
                          "layers": 3, "accumulation": 1, "parameters": 3 * 64 * 65 + 650})
        self.assertEqual(facts["shapes"][0], {"kind": "linear", "m": 32, "n": 64, "k": 64, "count": 3})
        self.assertGreater(facts["memory_used_bytes"], 0)
        self.assertEqual(job.frames("bye"), [{"type": "bye", "step": 20}])

    def test_where_the_time_goes_is_told_by_part(self):
        job = self.run_job(LOOP.format(model="nn.Sequential(Sleep(0.02), mlp())", loader=""))
        self.assertGreater(part(job.steps()[2:], "forward"), 20)
        self.assertLess(part(job.steps()[2:], "backward"), 10)

    def test_a_loader_with_workers_that_sleep_is_waited_for(self):
        job = self.run_job("""
            class Slow(torch.utils.data.Dataset):
                def __len__(self):
                    return 48
                def __getitem__(self, index):
                    time.sleep(0.01)
                    return torch.randn(64), index % 10
            model = mlp()
            optimizer = torch.optim.AdamW(model.parameters())
            for x, y in DataLoader(Slow(), batch_size=4, num_workers=1):
                optimizer.zero_grad()
                loss_of(model(x), y).backward()
                optimizer.step()
            """)
        self.assertEqual(len(job.ranks), 1)
        self.assertEqual(len(job.steps()), 12)
        self.assertGreater(part(job.steps()[2:], "data"), 20)
        self.assertEqual((job.facts()["workers"], job.facts()["batch_size"]), (1, 4))

    def test_accumulation_counts_microbatches_and_adds_a_divided_loss(self):
        job = self.run_job("""
            model, other = mlp(), 0
            optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
            for number, (x, y) in enumerate(DataLoader(samples(240), batch_size=10)):
                loss = loss_of(model(x), y) / 4
                loss.backward()
                if number % 4 == 3:
                    optimizer.step()
                    optimizer.zero_grad()
            """)
        self.assertEqual([step["microbatches"] for step in job.steps()], [4] * 6)
        self.assertEqual({step["count"] for step in job.steps()}, {40})
        self.assertEqual(job.facts()["accumulation"], 4)
        self.assertTrue(all(1.8 < step["loss"] < 3 for step in job.steps()), job.steps())

    def test_a_model_that_is_fed_by_hand_tells_samples_and_tokens(self):
        job = self.run_job("""
            model = nn.Sequential(nn.Embedding(50, 64), mlp())
            optimizer = torch.optim.SGD([{"params": model.parameters()}], lr=0.01)
            for step in range(8):
                x = torch.randint(0, 50, (3, 16))
                loss_of(model(x).flatten(0, 1), torch.randint(0, 10, (48,))).backward()
                optimizer.step()
            """)
        self.assertEqual({(step.get("count"), step.get("tokens")) for step in job.steps()[2:]}, {(3, 48)})
        self.assertEqual(job.facts()["sequence_length"], 16)

    def test_checkpointed_layers_are_recomputed_in_the_backward_pass(self):
        for reentrant in (True, False):
            with self.subTest(reentrant=reentrant):
                job = self.run_job(f"""
                    from torch.utils.checkpoint import checkpoint
                    layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), Sleep(0.005), nn.ReLU()) for _ in range(3))
                    head = nn.Linear(64, 10)
                    optimizer = torch.optim.SGD([*layers.parameters(), *head.parameters()], lr=0.01)
                    for x, y in DataLoader(samples(80), batch_size=8):
                        x.requires_grad_()
                        for layer in layers:
                            x = checkpoint(layer, x, use_reentrant={reentrant})
                        loss_of(head(x), y).backward()
                        optimizer.step()
                    """)
                self.assertGreater(part(job.steps()[2:], "recompute"), 15)
                self.assertLess(part(job.steps()[2:], "recompute"), part(job.steps()[2:], "backward"))
                self.assertEqual(job.facts()["checkpointed_layers"], 3)

    def test_a_scaled_loss_is_told_unscaled_and_a_skipped_step_is_a_step(self):
        job = self.run_job("""
            scaler = getattr(torch, "amp", torch.cuda.amp).GradScaler("cpu", init_scale=1024.0) if hasattr(
                getattr(torch, "amp", None), "GradScaler") else None
            if scaler is None:  # PyTorch 1.13 has one for CUDA alone: its interface, without its scaling.
                scaler = torch.cuda.amp.GradScaler(enabled=False)
            model = mlp()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for number, (x, y) in enumerate(DataLoader(samples(80), batch_size=8)):
                optimizer.zero_grad()
                loss = loss_of(model(x), y)
                if number == 5 and scaler.is_enabled():
                    loss = loss * float("inf")
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """)
        self.assertEqual(len(job.steps()), 10)
        self.assertTrue(all(step["loss"] < 10 for step in job.steps() if "loss" in step))
        self.assertGreaterEqual(sum("loss" in step for step in job.steps()), 9)

    def test_two_optimizers_in_turn_are_one_step(self):
        job = self.run_job("""
            generator, critic = mlp(), nn.Linear(10, 1)
            of_generator = torch.optim.Adam(generator.parameters())
            of_critic = torch.optim.Adam(critic.parameters())
            for x, _ in DataLoader(samples(200), batch_size=8):
                for _ in range(2):
                    of_critic.zero_grad()
                    critic(generator(x).detach()).mean().backward()
                    of_critic.step()
                of_generator.zero_grad()
                (-critic(generator(x)).mean()).backward()
                of_generator.step()
            """)
        steps = job.steps()[3:]
        self.assertEqual(len(job.steps()), 25 + 2)  # Until the second optimizer is seen, the first one's steps count.
        self.assertEqual({step["count"] for step in steps}, {8})
        self.assertEqual({step["microbatches"] for step in steps}, {3})

    def test_a_closure_is_part_of_the_step_and_ends_none(self):
        job = self.run_job("""
            model = nn.Linear(64, 10)
            optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
            for x, y in DataLoader(samples(80), batch_size=8):
                def closure():
                    optimizer.zero_grad()
                    loss = loss_of(model(x), y)
                    loss.backward()
                    return loss
                optimizer.step(closure)
            """)
        self.assertEqual(len(job.steps()), 10)
        self.assertEqual({step.get("microbatches", 0) for step in job.steps()}, {0})
        self.assertGreater(part(job.steps()[2:], "backward"), 0)

    def test_a_step_that_makes_an_optimizers_state_for_a_checkpoint_is_none(self):
        job = self.run_job("""
            try:
                from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
            except ImportError:
                sys.exit(print("absent"))
            model = mlp()
            optimizer = torch.optim.AdamW(model.parameters())
            get_optimizer_state_dict(model, optimizer)
            for x, y in DataLoader(samples(320), batch_size=32):
                optimizer.zero_grad()
                loss_of(model(x), y).backward()
                optimizer.step()
            """)
        if job.output == "absent\n":
            self.skipTest("this PyTorch has no such checkpoints")
        self.assertEqual([step["step"] for step in job.steps()], list(range(10)))
        self.assertTrue(all("loss" in step for step in job.steps()))

    def test_evaluation_and_checkpoints_are_aside(self):
        job = self.run_job("""
            model = nn.Sequential(Sleep(0.002), mlp())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            loader = DataLoader(samples(320), batch_size=32)
            for epoch in range(2):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss_of(model(x), y).backward()
                    optimizer.step()
                model.eval()
                with torch.no_grad():
                    for x, y in loader:
                        time.sleep(0.01)
                        model(x)
                model.train()
            """)
        self.assertEqual(len(job.steps()), 20)
        self.assertGreater(job.steps()[10]["parts"]["aside_ns"], 100e6)
        self.assertLess(job.steps()[11]["parts"]["aside_ns"], 1e6)


@unittest.skipUnless(HAS_TORCH, "needs PyTorch")
class TwoRanks(WatchedJobTest):
    def test_the_slow_rank_computes_longer_and_the_other_waits(self):
        job = self.run_job("""
            import torch.distributed as dist
            dist.init_process_group("gloo")
            model = nn.Sequential(Sleep(0.03 if dist.get_rank() == 1 else 0.0), mlp())
            model = nn.parallel.DistributedDataParallel(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for x, y in DataLoader(samples(160), batch_size=8):
                optimizer.zero_grad()
                loss_of(model(x), y).backward()
                optimizer.step()
            dist.barrier()
            """, ranks=2)
        self.assertEqual(sorted(job.ranks), [0, 1])
        for rank in (0, 1):
            self.assertEqual(job.frames("hello", rank)[0]["world_size"], 2)
            self.assertEqual(job.frames("hello", rank)[0]["local_rank"], rank)
            self.assertEqual(len(job.steps(rank)), 20)
            self.assertEqual(job.facts(rank)["framework"], "ddp")
        fast, slow = job.steps(0)[3:], job.steps(1)[3:]
        self.assertGreater(part(slow, "forward"), part(fast, "forward") + 15)
        self.assertGreater(part(fast, "communication"), part(slow, "communication") + 15)

    def test_microbatches_whose_gradients_are_reduced_are_counted(self):
        for synchronised in (True, False):
            with self.subTest(synchronised=synchronised):
                job = self.run_job(f"""
                    import contextlib
                    import torch.distributed as dist
                    dist.init_process_group("gloo")
                    model = nn.parallel.DistributedDataParallel(mlp())
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
                    for number, (x, y) in enumerate(DataLoader(samples(160), batch_size=8)):
                        last = number % 4 == 3
                        with contextlib.nullcontext() if last or {synchronised} else model.no_sync():
                            loss_of(model(x), y).backward()
                        if last:
                            optimizer.step()
                            optimizer.zero_grad()
                    dist.destroy_process_group()
                    """, ranks=2)
                facts = job.facts()
                self.assertEqual((facts["accumulation"], facts["reduced_microbatches"]), (4, 4 if synchronised else 1))

    def test_collectives_of_the_script_are_waited_for(self):
        job = self.run_job("""
            import torch.distributed as dist
            dist.init_process_group("gloo")
            model = mlp()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for x, y in DataLoader(samples(80), batch_size=8):
                optimizer.zero_grad()
                loss_of(model(x), y).backward()
                if dist.get_rank() == 1:
                    time.sleep(0.02)
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
                optimizer.step()
            """, ranks=2)
        self.assertGreater(part(job.steps(0)[2:], "communication"), part(job.steps(1)[2:], "communication") + 10)


if __name__ == "__main__":
    unittest.main()
