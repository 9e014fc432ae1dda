"""The list of animals and one animal, as commonly written with FastAPI and sqlite3."""

import os
import sqlite3

from fastapi import FastAPI, HTTPException, Query
from pydantic import BaseModel

app = FastAPI()
database = sqlite3.connect(os.environ["PETS"], check_same_thread=False)
database.row_factory = sqlite3.Row
COLUMNS = 'SELECT id, name, category_id AS "categoryId", status FROM pets'


class Pet(BaseModel):
    id: int
    name: str
    categoryId: int
    status: str


@app.get("/v1/pets")
async def list_pets(limit: int = Query(20, ge=1, le=100)) -> list[Pet]:
    rows = database.execute(f"{COLUMNS} ORDER BY id LIMIT ?", (limit,))
    return [Pet(**row) for row in rows]


@app.get("/v1/pets/{pet_id}")
async def get_pet(pet_id: int) -> Pet:
    row = database.execute(f"{COLUMNS} WHERE id = ?", (pet_id,)).fetchone()
    if row is None:
        raise HTTPException(404)
    return Pet(**row)
