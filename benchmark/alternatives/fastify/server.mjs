// The list of animals and one animal, as commonly written with Fastify and better-sqlite3.
import { createRequire } from 'node:module'

// Packages are installed in the current directory, not next to this file.
const require = createRequire(process.cwd() + '/')
const app = require('fastify')()
const Database = require('better-sqlite3')

const database = new Database(process.env.PETS, { readonly: true })
const columns = 'SELECT id, name, category_id AS categoryId, status FROM pets'
const page = database.prepare(`${columns} ORDER BY id LIMIT ?`)
const one = database.prepare(`${columns} WHERE id = ?`)

const pet = {
  type: 'object',
  properties: {
    id: { type: 'integer' },
    name: { type: 'string' },
    categoryId: { type: 'integer' },
    status: { type: 'string' }
  }
}
const limit = { type: 'integer', minimum: 1, maximum: 100, default: 20 }

app.get('/v1/pets', {
  schema: {
    querystring: { type: 'object', properties: { limit } },
    response: { 200: { type: 'array', items: pet } }
  }
}, async request => page.all(request.query.limit))

app.get('/v1/pets/:id', { schema: { response: { 200: pet } } }, async (request, reply) =>
  one.get(request.params.id) ?? reply.code(404).send({ message: 'no such animal' }))

await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) })
